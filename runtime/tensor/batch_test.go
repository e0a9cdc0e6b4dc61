package tensor_test

import (
	"bytes"
	"testing"
	"unsafe"

	"github.com/google/go-cmp/cmp"

	"github.com/weftserve/weft/runtime/tensor"
)

func TestSlabIsReusedAndGrows(t *testing.T) {
	var s tensor.Slab
	defer s.Free()
	if len(s.Bytes(0)) != 0 || s.Cap() != 0 {
		t.Errorf("nothing asked for: holds %d bytes", s.Cap())
	}
	first := s.Bytes(100)
	if len(first) != 100 || cap(first) != 100 || s.Cap() < 100 {
		t.Fatalf("got %d bytes of %d, holds %d", len(first), cap(first), s.Cap())
	}
	copy(first, "kept")
	held := s.Cap()
	if again := s.Bytes(held); unsafe.SliceData(again) != unsafe.SliceData(first) ||
		!bytes.HasPrefix(again, []byte("kept")) {
		t.Error("the memory moved, though there was enough")
	}
	if less := s.Bytes(1); unsafe.SliceData(less) != unsafe.SliceData(first) || s.Cap() != held {
		t.Error("asking for less changed the slab")
	}
	s.Bytes(10 * held)[10*held-1] = 1
	if held = s.Cap(); len(s.Bytes(held+1)) != held+1 || s.Cap() < 2*held {
		t.Errorf("holds %d bytes after growing from %d: growth must be geometric", s.Cap(), held)
	}
	s.Free()
	s.Free()
	if s.Cap() != 0 {
		t.Errorf("holds %d bytes after Free", s.Cap())
	}
	s.Bytes(10)[9] = 1
}

func TestSlabIsOutsideTheHeap(t *testing.T) {
	var s tensor.Slab
	defer s.Free()
	allocations := testing.AllocsPerRun(5, func() {
		s.Free()
		s.Bytes(1 << 20)
	})
	if allocations > 2 { // the system call's own bookkeeping
		t.Errorf("%v allocations for a megabyte", allocations)
	}
}

func TestBatch(t *testing.T) {
	b := tensor.NewBatch(2, 1, nil)
	shape := tensor.Shape{2, 3}
	copy(b.Input(0, tensor.Uint8, shape, 6), "abcdef")
	copy(b.Input(1, tensor.String, tensor.Shape{1}, 5), "\x01\x00\x00\x00x")
	copy(b.Output(0, tensor.Bool, nil, 1), "\x01")
	shape[0] = 99 // the caller's own
	wantIn := []tensor.Tensor{
		{DType: tensor.Uint8, Shape: tensor.Shape{2, 3}, Data: []byte("abcdef")},
		{DType: tensor.String, Shape: tensor.Shape{1}, Data: []byte("\x01\x00\x00\x00x")},
	}
	if diff := cmp.Diff(wantIn, b.Inputs); diff != "" {
		t.Errorf("inputs (-want +got)\n%s", diff)
	}
	for _, v := range append(b.Inputs, b.Outputs...) {
		if err := v.Check(); err != nil {
			t.Error(err)
		}
	}

	held := b.Cap()
	b.Input(0, tensor.Float64, tensor.Shape{1}, 8)
	if got := b.Inputs[0]; got.DType != tensor.Float64 || got.Check() != nil || b.Cap() != held {
		t.Errorf("reused: got %+v, holding %d bytes, want %d", got, b.Cap(), held)
	}
	b.Free()
	if b.Cap() != 0 || b.Inputs[0].Data != nil || b.Outputs[0].Data != nil {
		t.Errorf("after Free: holds %d bytes, inputs %v", b.Cap(), b.Inputs)
	}
}
