package tensor_test

import (
	"testing"

	"github.com/weftserve/weft/runtime/tensor"
)

func TestDTypeNames(t *testing.T) {
	sizes := map[tensor.DType]int{
		tensor.Bool: 1, tensor.Int8: 1, tensor.Uint8: 1, tensor.Int16: 2, tensor.Uint16: 2, tensor.Float16: 2,
		tensor.BFloat16: 2,
		tensor.Int32:    4, tensor.Uint32: 4, tensor.Float32: 4, tensor.Int64: 8, tensor.Uint64: 8, tensor.Float64: 8,
		tensor.String: 0,
	}
	seen := map[string]bool{}
	for d := tensor.Bool; d <= tensor.String; d++ {
		if got, ok := tensor.ParseDType(d.String()); got != d || !ok || seen[d.String()] {
			t.Errorf("%v: parsed as %v, %t", d, got, ok)
		}
		seen[d.String()] = true
		if want, ok := sizes[d]; !ok || d.Size() != want {
			t.Errorf("%v: size %d, want %d", d, d.Size(), want)
		}
		wantFloat := d == tensor.Float16 || d == tensor.BFloat16 || d == tensor.Float32 || d == tensor.Float64
		if d.IsFloat() != wantFloat {
			t.Errorf("%v: IsFloat %t", d, d.IsFloat())
		}
	}
	for _, name := range []string{"", "invalid", "float32", "FP32"} {
		if d, ok := tensor.ParseDType(name); ok || d != tensor.Invalid {
			t.Errorf("%q: parsed as %v", name, d)
		}
	}
	if d := tensor.DType(99); d.Size() != 0 || d.String() != "dtype(99)" || d.IsFloat() {
		t.Errorf("an unknown type: got %v of size %d", d, d.Size())
	}
}
