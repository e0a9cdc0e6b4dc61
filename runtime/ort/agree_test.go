package ort

import (
	"math"
	"testing"

	"github.com/weftserve/weft/internal/weftest"
	"github.com/weftserve/weft/runtime/tensor"
)

func TestAgree(t *testing.T) {
	nan := float32(math.NaN())
	for _, tt := range []struct {
		got, want []float32
		agree     bool
	}{
		{[]float32{1, 2}, []float32{1, 2}, true},
		{[]float32{1.0009, 2}, []float32{1, 2}, true},
		{[]float32{1.003, 2}, []float32{1, 2}, false},
		{[]float32{nan, 2}, []float32{1, 2}, false},
		{[]float32{1}, []float32{1, 1}, false},
	} {
		if got := agree(of(tt.got), of(tt.want)); got != tt.agree {
			t.Errorf("%v beside %v: %v", tt.got, tt.want, got)
		}
	}
	a := tensor.Tensor{DType: tensor.Int32, Shape: tensor.Shape{1}, Data: []byte{1, 0, 0, 0}}
	b := tensor.Tensor{DType: tensor.Int32, Shape: tensor.Shape{1}, Data: []byte{2, 0, 0, 0}}
	if agree(a, b) || !agree(a, a) {
		t.Error("integers must be equal")
	}
}

func of(values []float32) tensor.Tensor {
	return weftest.Floats(tensor.Shape{int64(len(values))}, values...)
}
