package main

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestSim(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "new")
	var out bytes.Buffer
	err := run([]string{
		"--quick", "--span", "1s", "--policies", "weft,sfq,powers", "--workloads",
		"single,aggressor,clock step", "--out", dir,
	}, &out, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"## Load carried", "| SFQ |", "## Ablation", "| powers of two |", "## Overload",
		"## Telemetry\n",
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("no %q in\n%s", want, &out)
		}
	}
	written, err := os.ReadFile(filepath.Join(dir, "results.md"))
	if err != nil {
		t.Fatal(err)
	}
	if !strings.HasSuffix(string(written), out.String()) {
		t.Errorf("results.md ends in other tables than were printed:\n%s", written)
	}
	for _, plot := range []string{"g99.svg", "load-single.svg"} {
		if svg, err := os.ReadFile(filepath.Join(dir, plot)); err != nil || !strings.Contains(string(svg), "SFQ") {
			t.Errorf("%s: %v, %d bytes", plot, err, len(svg))
		}
	}
}

func TestWhatItDoesNotKnow(t *testing.T) {
	for flags, want := range map[string]string{
		"--policies weft,nobody": `nothing is called "nobody"`,
		"--workloads nowhere":    `nothing is called "nowhere"`,
		"--policies powers":      "--policies names variants only",
	} {
		if err := run(strings.Fields(flags), io.Discard, io.Discard); err == nil ||
			!strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", flags, err, want)
		}
	}
}
