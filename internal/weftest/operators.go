package weftest

import (
	_ "embed"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

//go:embed testdata/operators.c
var operators []byte

// Operators builds a library of custom operators for ONNX Runtime, and returns its path. testdata/operators.c says what
// is in it, and which macros make another one. That takes the C compiler that cgo takes.
func Operators(t testing.TB, macros ...string) string {
	t.Helper()
	header, err := exec.CommandContext(t.Context(), "go", "list", "-m", "-f", "{{.Dir}}",
		"github.com/yalue/onnxruntime_go").Output()
	if err != nil {
		t.Fatal(err)
	}
	folder := t.TempDir()
	library := filepath.Join(folder, "operators.so")
	compiler := os.Getenv("CC")
	if compiler == "" {
		compiler = "cc"
	}
	args := []string{"-std=gnu11", "-O1", "-Wall", "-Werror", "-shared", "-fPIC", "-o", library}
	for _, m := range macros {
		args = append(args, "-D"+m)
	}
	args = append(args, "-I"+strings.TrimSpace(string(header)), WriteFile(t, folder, "operators.c", operators))
	//nolint:gosec // the compiler that cgo uses as well
	if out, err := exec.CommandContext(t.Context(), compiler, args...).CombinedOutput(); err != nil {
		t.Fatalf("build a library of operators: %v\n%s", err, out)
	}
	return library
}
