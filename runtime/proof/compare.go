package proof

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math"
	"slices"

	"github.com/weftserve/weft/runtime/tensor"
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
			largest[i] = max(largest[i], finiteAbs(floatAt(t, i)))
		}
	}
	return largest
}

// finiteAbs returns the magnitude of a number, 0 where that is not finite.
func finiteAbs(v float64) float64 {
	if v = math.Abs(v); math.IsInf(v, 0) || math.IsNaN(v) {
		return 0
	}
	return v
}

// varying counts the elements of an output that differ between any two rows, and those that do not. Rows that differ in
// shape, and strings, are taken as a whole.
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

// inWords describes the fault of an answer that deviation found to be so far from its row's result alone, or the error
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

// deviation returns the largest difference between two tensors relative to the scale of the element, or to least times
// the largest of want where that is more (nil: to the largest itself), +Inf where no number can say how different they
// are. NaN equals NaN, and an infinity itself. The error reports another type or shape.
func deviation(got, want tensor.Tensor, scale []float64, least float64) (float64, error) {
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
	worst := 0.0
	largest, _ := magnitude(want)
	for i := range len(got.Data) / got.DType.Size() {
		g, w := floatAt(got, i), floatAt(want, i)
		if g == w || math.IsNaN(g) && math.IsNaN(w) {
			continue
		}
		s := largest
		if scale != nil {
			s = max(scale[i], least*largest)
		}
		d := math.Abs(g-w) / s
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
