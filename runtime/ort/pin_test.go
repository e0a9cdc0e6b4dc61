package ort_test

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"

	"github.com/weftserve/weft/runtime/ort"
	"github.com/weftserve/weft/runtime/tensor"
)

func TestPinner(t *testing.T) {
	calls := useFakeCUDA(t)
	p, err := ort.NewPinner(3, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	b := tensor.NewBatch(1, 1, p)
	b.Input(0, tensor.Float32, tensor.Shape{10}, 40)
	b.Input(0, tensor.Float32, tensor.Shape{10}, 40)
	if got := calls.count(t, "cudaHostRegister 4096 1"); got != 1 {
		t.Errorf("a page was locked %d times", got)
	}
	b.Input(0, tensor.Float32, tensor.Shape{2048}, 8192) // moves
	if lock, unlock := calls.count(t, "cudaHostRegister"), calls.count(t, "cudaHostUnregister"); lock != 2 ||
		unlock != 1 {
		t.Errorf("after a move: %d locked, %d unlocked", lock, unlock)
	}
	if calls.count(t, "cudaSetDevice 3") != calls.count(t, "cudaSetDevice") || calls.count(t, "cudaSetDevice") == 0 {
		t.Error("another device was chosen")
	}
	b.Free()
	if unlock := calls.count(t, "cudaHostUnregister"); unlock != 2 {
		t.Errorf("in the end %d unlocked", unlock)
	}
}

// Memory that another has mapped, as a worker does, is locked until unpin.
func TestPinForeignMemory(t *testing.T) {
	calls := useFakeCUDA(t)
	p, err := ort.NewPinner(3, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	var unpin []func()
	for _, size := range []int{4096, 100} {
		memory, err := tensor.SystemMemory{}.Allocate(size)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { tensor.SystemMemory{}.Free(memory) })
		unpin = append(unpin, ort.Pin(p, memory))
	}
	if n := calls.count(t, "cudaHostRegister"); n != 2 {
		t.Errorf("%d pieces of memory locked, want 2", n)
	}
	unpin[1]()
	if n := calls.count(t, "cudaHostUnregister"); n != 1 {
		t.Errorf("%d unlocked, want 1", n)
	}
	unpin[0]()
	if n := calls.count(t, "cudaHostUnregister"); n != 2 {
		t.Errorf("%d unlocked, want 2", n)
	}
}

func TestPinnerThatFails(t *testing.T) {
	calls := useFakeCUDA(t)
	t.Setenv("FAKE_CUDA_FAIL", "cudaHostRegister=2")
	var log bytes.Buffer
	p, err := ort.NewPinner(0, slog.New(slog.NewTextHandler(&log, nil)))
	if err != nil {
		t.Fatal(err)
	}
	b := tensor.NewBatch(1, 0, p)
	for _, size := range []int{10, 10_000, 100_000} {
		b.Input(0, tensor.Uint8, tensor.Shape{int64(size)}, size)[size-1] = 1
	}
	b.Free()
	if n := calls.count(t, "cudaHostUnregister"); n != 0 {
		t.Errorf("%d unlocked that never were locked", n)
	}
	if strings.Count(log.String(), "\n") != 1 || !strings.Contains(log.String(), "CUDA error 2: out of memory") {
		t.Errorf("log %q, want one line", &log)
	}
}

// A buffer that cannot be unlocked may be the first to show that the device is lost.
func TestPinnerSeesLoss(t *testing.T) {
	useFakeCUDA(t)
	p, err := ort.NewPinner(3, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	b := tensor.NewBatch(1, 0, p)
	b.Input(0, tensor.Uint8, tensor.Shape{10}, 10)
	t.Setenv("FAKE_CUDA_FAIL", "cudaHostUnregister=700")
	b.Free()
	if ort.LostBy(3) == nil || ort.LostBy(0) != nil {
		t.Errorf("device 3 is lost by %v, device 0 by %v", ort.LostBy(3), ort.LostBy(0))
	}
}

func TestCUDARuntimeThatIsNone(t *testing.T) {
	ort.UseCUDARuntime(t, shared(t, "int cudaMalloc(void **p, unsigned long n) { return 0; }"))
	_, err := ort.NewPinner(0, slog.New(slog.DiscardHandler))
	contains(t, err, "CUDA runtime", "lacks functions")
}
