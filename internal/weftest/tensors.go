package weftest

import (
	"encoding/binary"
	"math"

	"github.com/weftserve/weft/runtime/tensor"
)

// Spec declares a tensor as engines do: none of its dimensions is known to count rows.
func Spec(name string, d tensor.DType, shape ...int64) tensor.Spec {
	return tensor.Spec{Name: name, DType: d, Shape: shape, BatchDim: tensor.NoBatch}
}

// Floats is a tensor of fp32.
func Floats(shape tensor.Shape, values ...float32) tensor.Tensor {
	t := tensor.Tensor{DType: tensor.Float32, Shape: shape, Data: make([]byte, 0, 4*len(values))}
	for _, v := range values {
		t.Data = binary.LittleEndian.AppendUint32(t.Data, math.Float32bits(v))
	}
	return t
}

// Values are the elements of a tensor of fp32.
func Values(t tensor.Tensor) []float32 {
	out := make([]float32, len(t.Data)/4)
	for i := range out {
		out[i] = math.Float32frombits(binary.LittleEndian.Uint32(t.Data[4*i:]))
	}
	return out
}

// Words is a tensor of strings.
func Words(shape tensor.Shape, values ...string) tensor.Tensor {
	t := tensor.Tensor{DType: tensor.String, Shape: shape}
	for _, v := range values {
		t.Data = tensor.AppendString(t.Data, []byte(v))
	}
	return t
}

// Texts are the elements of a tensor of strings.
func Texts(t tensor.Tensor) []string {
	var out []string
	for rest := t.Data; len(rest) > 0; {
		var e []byte
		e, rest, _ = tensor.NextString(rest)
		out = append(out, string(e))
	}
	return out
}
