package gputest

import (
	"bytes"
	_ "embed"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

//go:embed testdata/nvml.c
var nvmlSource []byte

// NVML is a stand-in for the driver's library, libnvidia-ml.so.1. The comment of testdata/nvml.c lists its possible
// answers. A process can load one.
type NVML struct {
	Path  string // of the library
	state string // the file that it reads
}

// NewNVML puts a library into a folder that has none of the functions named. It needs the C compiler that cgo needs.
func NewNVML(folder string, without ...string) (*NVML, error) {
	library, err := compiled()
	if err != nil {
		return nil, err
	}
	library = bytes.Clone(library)
	for _, function := range without {
		// A function that goes by another name is not found by its own.
		name := []byte("\x00" + function + "\x00")
		if !bytes.Contains(library, name) {
			return nil, fmt.Errorf("the stand-in for NVML does not have %s anyway", function)
		}
		library = bytes.ReplaceAll(library, name, bytes.Replace(name, []byte("nvml"), []byte("none"), 1))
	}
	n := &NVML{Path: filepath.Join(folder, "libnvidia-ml.so.1"), state: filepath.Join(folder, "state")}
	return n, os.WriteFile(n.Path, library, 0o755)
}

// compiled returns the library with all functions.
var compiled = sync.OnceValues(func() ([]byte, error) {
	folder, err := os.MkdirTemp("", "weft-nvml-*")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(folder)
	source, library := filepath.Join(folder, "nvml.c"), filepath.Join(folder, "nvml.so")
	if err := os.WriteFile(source, nvmlSource, 0o644); err != nil {
		return nil, err
	}
	compiler := os.Getenv("CC")
	if compiler == "" {
		compiler = "cc"
	}
	//nolint:gosec // the compiler that cgo uses as well
	if out, err := exec.Command(compiler, "-shared", "-fPIC", "-o", library, source,
		"-ldl").CombinedOutput(); err != nil {
		return nil, fmt.Errorf("compile a stand-in for NVML: %w\n%s", err, out)
	}
	return os.ReadFile(library)
})

// Say makes the library answer with these lines, and nothing else.
func (n *NVML) Say(tb testing.TB, lines ...string) {
	tb.Helper()
	next := n.state + ".next"
	if err := os.WriteFile(next, []byte(strings.Join(lines, "\n")+"\n"), 0o644); err != nil {
		tb.Fatal(err)
	}
	// In one step, since the library may be reading.
	if err := os.Rename(next, n.state); err != nil {
		tb.Fatal(err)
	}
}
