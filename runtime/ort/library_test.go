package ort_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/weftserve/weft/internal/onnxgraph"
	"github.com/weftserve/weft/internal/ortlib"
	"github.com/weftserve/weft/internal/weftest"
	"github.com/weftserve/weft/runtime/ort"
	"github.com/weftserve/weft/runtime/tensor"
)

func TestInitTwice(t *testing.T) {
	initialise(t)
	initialise(t)
	contains(t, ort.Init("/elsewhere/libonnxruntime.so"), "already loaded", "/elsewhere/libonnxruntime.so")
	if v := ort.Version(); !strings.HasPrefix(v, "1.") {
		t.Errorf("version: got %q", v)
	}
}

func TestShutdownAndBadLibraries(t *testing.T) {
	initialise(t)
	path, err := ortlib.Find()
	if err != nil {
		t.Fatal(err)
	}
	model := weftest.WriteFile(t, t.TempDir(), "model.onnx", onnxgraph.MLP("policy", []int{4, 2}, 1, "Tanh", ""))
	s, err := ort.Open(model, ort.Options{})
	if err != nil {
		t.Fatal(err)
	}
	contains(t, ort.Shutdown(), "1 sessions are open")
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if err := ort.Shutdown(); err != nil {
		t.Fatal(err)
	}
	_, err = ort.Open(model, ort.Options{})
	contains(t, err, "Init")

	contains(t, ort.Init("/nowhere/libonnxruntime.so"), "/nowhere/libonnxruntime.so", "No such file")
	contains(t, ort.Init(shared(t, "int unrelated(void) { return 1; }")), "not an ONNX Runtime library")
	contains(t, ort.Init(shared(t, `
		static const void *api(unsigned v) { return 0; }
		static const char *version(void) { return "1.23.2"; }
		static const void *base[] = {(void *)api, (void *)version};
		const void *OrtGetApiBase(void) { return base; }`)), "1.23.2", "need 1.24 or newer")

	if err := ort.Init(path); err != nil {
		t.Fatalf("after the failures: %v", err)
	}
	runOnce(t, openFile(t, model), floats(tensor.Shape{1, 4}, 1, 2, 3, 4))
}

// shared compiles a shared library.
func shared(t *testing.T, source string) string {
	t.Helper()
	dir := t.TempDir()
	c, lib := filepath.Join(dir, "lib.c"), filepath.Join(dir, "lib.so")
	if err := os.WriteFile(c, []byte(source), 0o600); err != nil {
		t.Fatal(err)
	}
	compile(t, "-shared", "-fPIC", "-o", lib, c)
	return lib
}

// compile runs the C compiler that cgo uses.
func compile(t *testing.T, args ...string) {
	t.Helper()
	cc := strings.Fields(goCommand(t, "env", "CC"))
	if out, err := exec.CommandContext(t.Context(), cc[0], append(cc[1:], args...)...).CombinedOutput(); err != nil {
		t.Fatalf("%s: %v\n%s", cc[0], err, out)
	}
}

func goCommand(t *testing.T, args ...string) string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "go", args...).Output()
	if err != nil {
		t.Fatalf("go %v: %v", args, err)
	}
	return strings.TrimSpace(string(out))
}
