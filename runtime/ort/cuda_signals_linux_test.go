package ort

import (
	"os"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/weftserve/weft/internal/onnxgraph"
	"github.com/weftserve/weft/internal/ortlib"
	"github.com/weftserve/weft/internal/weftest"
	"github.com/weftserve/weft/runtime/tensor"
)

// The real CUDA provider leaves every signal's handler as it was, also after runs.
func TestCUDAKeepsSignals(t *testing.T) {
	if os.Getenv("WEFT_TEST_CUDA") != "1" {
		t.Skip("WEFT_TEST_CUDA is not 1: a GPU is needed")
	}
	library, err := ortlib.Find()
	if err != nil {
		t.Fatal(err)
	}
	if err := Init(library); err != nil {
		t.Fatal(err)
	}
	path := weftest.WriteFile(t, t.TempDir(), "model.onnx", onnxgraph.MLP("policy", []int{4, 8, 2}, 1, "Tanh", ""))
	before := handlers()
	s, err := Open(path, Options{Providers: []string{CUDA}})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	b := tensor.NewBatch(1, 1, nil)
	defer b.Free()
	b.Input(0, tensor.Float32, tensor.Shape{1, 4}, 16)
	if err := s.Run(t.Context(), b); err != nil {
		t.Fatal(err)
	}
	for n, was := range before {
		if now := handlers()[n]; now != was {
			t.Errorf("signal %d: handler %+v, was %+v", n, now, was)
		}
	}
}

// handlers returns the handler of every signal.
func handlers() map[int]kernelAction {
	all := map[int]kernelAction{}
	for n := 1; n <= 64; n++ {
		var action kernelAction
		if _, _, errno := unix.RawSyscall6(unix.SYS_RT_SIGACTION, uintptr(n), 0, uintptr(unsafe.Pointer(&action)),
			unsafe.Sizeof(action.mask), 0, 0); errno == 0 {
			all[n] = action
		}
	}
	return all
}
