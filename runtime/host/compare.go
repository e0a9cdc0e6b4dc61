package host

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math"
	"slices"

	"github.com/weftserve/weft/runtime/tensor"
)

// tolerance returns how far two answers to the same row may lie apart, relative to the largest magnitude among the answers.
// Floating point sums depend on the order in which a kernel adds, and kernels differ by batch size. bf16 is allowed as many
// units in the last place as fp16: 2·2⁻¹⁰ of the value there, 2·2⁻⁷ here. What is no floating point number must be equal.
func tolerance(d tensor.DType) float64 {
	switch d {
	case tensor.Float32, tensor.Float64:
		return 1e-5
	case tensor.Float16:
		return 2e-3
	case tensor.BFloat16:
		return 1.6e-2
	default:
		return 0
	}
}

// magnitude returns the largest finite absolute value, and whether there is any finite value at all.
func magnitude(t tensor.Tensor) (largest float64, finite bool) {
	if !t.DType.IsFloat() {
		return 0, len(t.Data) > 0
	}
	for i := range len(t.Data) / t.DType.Size() {
		if v := math.Abs(floatAt(t, i)); !math.IsInf(v, 0) && !math.IsNaN(v) {
			largest, finite = max(largest, v), true
		}
	}
	return largest, finite
}

// deviation returns the largest difference between two tensors relative to scale, +Inf where no number can say how different
// they are. NaN equals NaN, and an infinity itself. The error tells of another type or shape.
func deviation(got, want tensor.Tensor, scale float64) (float64, error) {
	if got.DType != want.DType || !slices.Equal(got.Shape, want.Shape) {
		return 0, fmt.Errorf("has type %v and shape %v instead of %v and %v", got.DType, got.Shape, want.DType, want.Shape)
	}
	if bytes.Equal(got.Data, want.Data) {
		return 0, nil
	}
	if !got.DType.IsFloat() {
		return math.Inf(1), nil
	}
	worst := 0.0
	for i := range len(got.Data) / got.DType.Size() {
		g, w := floatAt(got, i), floatAt(want, i)
		if g == w || math.IsNaN(g) && math.IsNaN(w) {
			continue
		}
		d := math.Abs(g-w) / scale
		if math.IsNaN(d) {
			d = math.Inf(1)
		}
		worst = max(worst, d)
	}
	return worst, nil
}

// floatAt returns element i of a tensor of floating point numbers.
func floatAt(t tensor.Tensor, i int) float64 {
	switch t.DType {
	case tensor.Float16:
		return float64(tensor.Float16Value(binary.LittleEndian.Uint16(t.Data[2*i:])))
	case tensor.BFloat16:
		return float64(tensor.BFloat16Value(binary.LittleEndian.Uint16(t.Data[2*i:])))
	case tensor.Float32:
		return float64(math.Float32frombits(binary.LittleEndian.Uint32(t.Data[4*i:])))
	default:
		return math.Float64frombits(binary.LittleEndian.Uint64(t.Data[8*i:]))
	}
}
