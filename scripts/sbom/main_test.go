package main

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/weftserve/weft/internal/ortlib"
)

// TestEveryModuleIsListed: what the go command says of the real program, by its packages and by the program itself.
func TestEveryModuleIsListed(t *testing.T) {
	if testing.Short() {
		t.Skip("it builds the program")
	}
	folder := t.TempDir()
	program, out := filepath.Join(folder, "weft"), filepath.Join(folder, "bom.json")
	command(t, "go", "build", "-ldflags=-w", "-o", program, "../../cmd/weft")
	if err := run(t.Context(), []string{"--weft", program, "--out", out}, io.Discard, io.Discard); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(out)
	if err != nil {
		t.Fatal(err)
	}
	var b bom
	if err := json.Unmarshal(text, &b); err != nil || b.Format != "CycloneDX" {
		t.Fatalf("%v: %.200s", err, text)
	}
	for _, missing := range missing(&b, modulesOfPackages(t)) {
		t.Errorf("the packages need %s, which is not listed", missing)
	}
	for _, missing := range missing(&b, modulesOfProgram(t, program)) {
		t.Errorf("the program has %s, which is not listed", missing)
	}
	// The check finds what is not there.
	b.Components = slices.DeleteFunc(b.Components, func(c component) bool { return c.Name == "google.golang.org/grpc" })
	if got := missing(&b, modulesOfPackages(t)); len(got) != 1 {
		t.Errorf("without one module, %q are missing", got)
	}
	wantLibrary(t, &b)
}

// wantLibrary wants ONNX Runtime to be listed as it is.
func wantLibrary(t *testing.T, b *bom) {
	t.Helper()
	path, err := ortlib.Find()
	if err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	digest := sha256.Sum256(data)
	i := slices.IndexFunc(b.Components, func(c component) bool { return c.Name == "onnxruntime" })
	if i < 0 {
		t.Fatal("ONNX Runtime is not listed")
	}
	c := b.Components[i]
	if len(c.Hashes) != 1 || c.Hashes[0].Content != hex.EncodeToString(digest[:]) || c.Version != ortlib.Version ||
		len(c.Licenses) != 1 || c.Licenses[0]["license"]["id"] != "MIT" {
		t.Errorf("%+v", c)
	}
}

// missing returns the modules, as path@version, that a bill lacks.
func missing(b *bom, modules []string) (out []string) {
	for _, m := range modules {
		path, version, _ := strings.Cut(m, "@")
		if !slices.ContainsFunc(b.Components, func(c component) bool { return c.Name == path && c.Version == version }) {
			out = append(out, m)
		}
	}
	return out
}

func modulesOfPackages(t *testing.T) (out []string) {
	t.Helper()
	modules, err := modulesOf(t.Context(), "../../cmd/weft")
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range modules {
		out = append(out, m.Path+"@"+m.Version)
	}
	return out
}

func modulesOfProgram(t *testing.T, program string) (out []string) {
	t.Helper()
	for line := range strings.Lines(command(t, "go", "version", "-m", program)) {
		if f := strings.Fields(line); len(f) > 2 && f[0] == "dep" {
			out = append(out, f[1]+"@"+f[2])
		}
	}
	if len(out) < 20 {
		t.Errorf("the program has %d modules", len(out))
	}
	return out
}

func command(t *testing.T, name string, args ...string) string {
	t.Helper()
	c := exec.CommandContext(t.Context(), name, args...)
	c.Stderr = os.Stderr
	text, err := c.Output()
	if err != nil {
		t.Fatalf("%v: %v", c.Args, err)
	}
	return string(text)
}

// TestFaultsSayWhatToDo about a program that is none, and a library that is not there.
func TestFaultsSayWhatToDo(t *testing.T) {
	for _, tt := range []struct{ args, want string }{
		{"--weft=main.go", "build it by make build"},
		{"--weft=none/such", "build it by make build"},
	} {
		err := run(t.Context(), []string{tt.args}, io.Discard, io.Discard)
		if err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v", tt.args, err)
		}
	}
}
