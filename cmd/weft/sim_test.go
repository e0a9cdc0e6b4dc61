package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestSim(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "new")
	var out, problems bytes.Buffer
	status := run([]string{
		"sim", "--quick", "--seconds", "1", "--policies", "weft,sfq,powers", "--workloads", "single,aggressor,clock step", "--out", dir,
	}, &out, &problems)
	if status != 0 {
		t.Fatalf("status %d\n%s", status, &problems)
	}
	for _, want := range []string{"## Load carried", "| SFQ |", "## Ablation", "| powers of two |", "## Overload", "## Telemetry\n"} {
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

func TestSimTellsWhatItDoesNotKnow(t *testing.T) {
	for flags, want := range map[string]string{
		"--policies weft,nobody": `--policies: nothing is called "nobody"`,
		"--workloads nowhere":    `--workloads: nothing is called "nowhere"`,
		"--policies powers":      "--policies names variants only",
		"--seconds=-1":           "must not be negative",
	} {
		var out, problems bytes.Buffer
		if status := run(append([]string{"sim"}, strings.Fields(flags)...), &out, &problems); status != statusFailed {
			t.Errorf("%s: status %d", flags, status)
		}
		if !strings.Contains(problems.String(), want) {
			t.Errorf("%s: %q, want %q", flags, &problems, want)
		}
	}
}
