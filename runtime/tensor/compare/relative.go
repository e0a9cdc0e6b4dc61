package compare

import (
	"bytes"
	"fmt"
	"math"
	"slices"

	"github.com/weftserve/weft/runtime/tensor"
)

// Magnitude returns the absolute value of element i of a tensor of numbers, 0 where that is not finite.
func Magnitude(t tensor.Tensor, i int) float64 {
	if v := math.Abs(t.Number(i)); v <= math.MaxFloat64 {
		return v
	}
	return 0
}

// Relative returns the largest difference of an element of two tensors relative to its scale, or to least times the
// largest finite magnitude of want where that is more (scale nil: to that magnitude itself). It is +Inf where no number
// says how different they are, and of other types than floating point numbers where they are not equal. NaN equals NaN,
// and an infinity itself. The error reports another type or shape.
func Relative(got, want tensor.Tensor, scale []float64, least float64) (worst float64, err error) {
	if got.DType != want.DType || !slices.Equal(got.Shape, want.Shape) {
		return math.Inf(1), fmt.Errorf("has type %v and shape %v instead of %v and %v", got.DType, got.Shape,
			want.DType, want.Shape)
	}
	if bytes.Equal(got.Data, want.Data) {
		return 0, nil
	}
	if !got.DType.IsFloat() {
		return math.Inf(1), nil
	}
	var w walk
	w.rows(&Output{Tensor: want, BatchDim: tensor.NoBatch}, got, false)
	if scale == nil {
		return w.relative, nil
	}
	n := len(want.Data) / want.DType.Size()
	for at := 0; at < n; at += len(w.a) {
		wants, gots := w.read(want.DType, want.Data, got.Data, at, n)
		for i, x := range wants {
			if far := apart(0, x, gots[i]); far > 0 {
				worst = max(worst, far/max(scale[at+i], least*w.primary)) // +Inf where the scale is 0
			}
		}
	}
	return worst, nil
}
