package proof

import (
	"bytes"
	"fmt"
	"math"
	"slices"

	"github.com/weftserve/weft/runtime/tensor"
	"github.com/weftserve/weft/runtime/tensor/compare"
)

// tolerance returns how far two answers to the same row may lie apart, relative to the largest magnitude among the
// answers. Floating point sums depend on the order in which a kernel adds, and kernels differ by batch size. bf16 is
// allowed as many units in the last place as fp16: 2·2⁻¹⁰ of the value there, 2·2⁻⁷ here. Values that are not floating
// point numbers must be equal.
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

// finite reports whether a tensor has a value that is a finite number, or no number at all.
func finite(t tensor.Tensor) bool {
	if !t.DType.IsFloat() {
		return len(t.Data) > 0
	}
	for i := range len(t.Data) / t.DType.Size() {
		if v := t.Number(i); !math.IsInf(v, 0) && !math.IsNaN(v) {
			return true
		}
	}
	return false
}

// scales returns, by element, the magnitude that differences of an output are relative to: the largest that the element
// has in any of the rows, so that a small quantity does not hide behind a large one next to it. Rows of different shape
// are not comparable by element; the result is then nil.
func scales(rows []tensor.Tensor) []float64 {
	var largest []float64
	for k, t := range rows {
		if !t.DType.IsFloat() || !slices.Equal(t.Shape, rows[0].Shape) {
			return nil
		}
		n := len(t.Data) / t.DType.Size()
		if k == 0 {
			largest = make([]float64, n)
		}
		for i := range n {
			largest[i] = max(largest[i], compare.Magnitude(t, i))
		}
	}
	return largest
}

// varying counts the elements of an output that differ between any two rows, and the elements that do not. Rows that
// differ in shape, and strings, are taken as a whole.
func varying(rows []tensor.Tensor) (varied, same int) {
	size := rows[0].DType.Size()
	for _, t := range rows[1:] {
		if size == 0 || len(t.Data) != len(rows[0].Data) {
			size = max(1, len(rows[0].Data))
			if !bytes.Equal(t.Data, rows[0].Data) {
				return 1, 0
			}
		}
	}
	for at := 0; at < len(rows[0].Data); at += size {
		end := min(at+size, len(rows[0].Data))
		if slices.ContainsFunc(rows,
			func(t tensor.Tensor) bool { return !bytes.Equal(t.Data[at:end], rows[0].Data[at:end]) }) {
			varied++
		} else {
			same++
		}
	}
	return varied, same
}

// floor is how far below the largest magnitude of its row the scale of an element is taken to lie at most: sums of
// large numbers that cancel out leave errors in proportion to those, and not to their small remainder.
const floor = 1e-2

// inWords describes the fault of an answer that was found to be so far from its row's result alone, or the error
// that it gave instead; "" if that is tolerated. among words the batch that the row was in.
func inWords(spec *tensor.Spec, far float64, err error, tolerated float64, among string) string {
	switch {
	case err != nil:
		return fmt.Sprintf("output %q of a row %s %v", spec.Name, among, err)
	case math.IsInf(far, 1):
		return fmt.Sprintf("output %q of a row has another value %s", spec.Name, among)
	case far > tolerated:
		return fmt.Sprintf("output %q of a row differs by %.2g of its magnitude %s (tolerated: %.2g)", spec.Name, far,
			among, tolerated)
	}
	return ""
}
