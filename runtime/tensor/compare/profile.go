package compare

import (
	"math"

	"github.com/weftserve/weft/runtime/tensor"
)

// MaxParts bounds the elements of a row that a profile tells apart. A longer row is divided into as many runs of
// neighbours, as even as possible.
const MaxParts = 64

// Profile is what one comparison shows of an output of numbers, element by element.
type Profile struct {
	Primary *Output
	Size    int // elements of a row
	Parts   int // that are told apart: Size, or MaxParts
	Rows    int64
	// Errors is the largest difference of each part: +Inf where no number expresses it.
	Errors             [MaxParts]float64
	Magnitude          float64 // the largest finite one of the primary's
	Absolute, Relative float64 // as of Difference
	Row, At            int     // where the largest difference is: row of the tensor, and element of the row

	shadow tensor.Tensor
	layout layout
}

// ProfileOf compares two tensors; nil where they are no numbers, of different types or shapes, or have no elements.
func ProfileOf(p *Output, s tensor.Tensor) *Profile {
	if !countable(p.DType) || mismatch(p.Tensor, s) != "" {
		return nil
	}
	var w walk
	w.rows(p, s, true)
	return w.profile
}

// Around returns the elements of both outputs' rows around the largest difference, from first on: all of them, or
// MaxParts.
func (f *Profile) Around() (first int, primary, shadow []float64) {
	n := min(f.Size, MaxParts)
	first = max(0, min(f.At-MaxParts/2, f.Size-MaxParts))
	for i := range n {
		place := f.layout.place(f.Row, first+i)
		primary, shadow = append(primary, f.Primary.Number(place)), append(shadow, f.shadow.Number(place))
	}
	return first, primary, shadow
}

// StartOf returns the first element of a part of a row of size elements that is divided into so many.
func StartOf(part, parts, size int) int { return part * size / parts }

// partOf returns the part of an element: it is at or after the part's start, and before the next part's.
func partOf(element, parts, size int) int { return ((element+1)*parts - 1) / size }

// take takes in numbers of both rows that begin at an element.
func (f *Profile) take(xs, ys []float64, element int) {
	if f.Parts == f.Size {
		errors := f.Errors[element:][:len(xs)]
		for i, x := range xs {
			errors[i] = apart(errors[i], x, ys[i])
		}
		return
	}
	for len(xs) > 0 {
		part := partOf(element, f.Parts, f.Size)
		n := min(len(xs), StartOf(part+1, f.Parts, f.Size)-element)
		far := f.Errors[part]
		for i, x := range xs[:n] {
			far = apart(far, x, ys[i])
		}
		f.Errors[part] = far
		xs, ys, element = xs[n:], ys[n:], element+n
	}
}

// conclude fills in what a walk over the whole tensor found.
func (f *Profile) conclude(w *walk) {
	l := f.layout
	f.Rows, f.Magnitude, f.Absolute, f.Relative = w.count, w.primary, w.absolute, w.relative
	f.Row, f.At = w.farthest/l.inner%l.rows, w.farthest/l.inner/l.rows*l.inner+w.farthest%l.inner
	part := partOf(f.At, f.Parts, f.Size)
	f.Errors[part] = max(f.Errors[part], w.absolute) // which rounding may have hidden from take
}

// apart returns the larger of far and the difference of two numbers.
func apart(far, x, y float64) float64 {
	d := math.Abs(x - y)
	if d > far {
		return d
	}
	if d != d && x != y && (x == x || y == y) { // not equal infinities, nor two NaN
		return math.Inf(1)
	}
	return far
}

// layout is how the elements of a row lie in a tensor: outer runs of inner neighbours, rows·inner apart.
type layout struct{ outer, rows, inner int }

func layoutOf(p *Output) layout {
	l := layout{1, 1, 1}
	for d, n := range p.Shape {
		switch {
		case d > p.BatchDim:
			l.inner *= int(n)
		case d == p.BatchDim:
			l.rows = int(n)
		default:
			l.outer *= int(n)
		}
	}
	return l
}

// place returns where an element of a row is in the tensor.
func (l layout) place(row, element int) int {
	return (element/l.inner*l.rows+row)*l.inner + element%l.inner
}
