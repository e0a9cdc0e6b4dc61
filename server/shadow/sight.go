package shadow

import (
	"math"

	"github.com/weftserve/weft/runtime/tensor"
)

// maxElements bounds the elements of a row that are told apart. A longer row is divided into as many runs of
// neighbours, as even as possible.
const maxElements = 64

// sight is what one comparison shows of an output, element by element.
type sight struct {
	primary *Output
	shadow  []byte // the data of the shadow's output
	size    int    // elements of a row
	parts   int    // that are told apart: size, or maxElements
	rows    int64
	// errors is the largest difference of each part: +Inf where no number expresses it.
	errors             [maxElements]float64
	magnitude          float64 // the largest finite one of the primary's
	absolute, relative float64 // as of Difference
	row, at            int     // where the largest difference is: row of the tensor, and element of the row
}

// startOf returns the first element of a part of a row of size elements that is divided into so many.
func startOf(part, parts, size int) int { return part * size / parts }

// partOf returns the part of an element: the only one of which it is at or after the start, and before the next start.
func partOf(element, parts, size int) int { return ((element+1)*parts - 1) / size }

// take takes in numbers of both rows that begin at an element.
func (s *sight) take(xs, ys []float64, element int) {
	if s.parts == s.size {
		errors := s.errors[element:][:len(xs)]
		for i, x := range xs {
			errors[i] = apart(errors[i], x, ys[i])
		}
		return
	}
	for len(xs) > 0 {
		part := partOf(element, s.parts, s.size)
		n := min(len(xs), startOf(part+1, s.parts, s.size)-element)
		far := s.errors[part]
		for i, x := range xs[:n] {
			far = apart(far, x, ys[i])
		}
		s.errors[part] = far
		xs, ys, element = xs[n:], ys[n:], element+n
	}
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

// sightOf compares two tensors of numbers of equal type and shape; nil where they have no elements.
func sightOf(p *Output, s tensor.Tensor) *sight {
	var w walk
	w.rows(p, s, true)
	return w.sight
}

// conclude fills in what a walk over the whole tensor found.
func (s *sight) conclude(w *walk, l layout) {
	s.rows, s.magnitude, s.absolute, s.relative = w.count, w.primary, w.absolute, w.relative
	s.row, s.at = w.farthest/l.inner%l.rows, w.farthest/l.inner/l.rows*l.inner+w.farthest%l.inner
	part := partOf(s.at, s.parts, s.size)
	s.errors[part] = max(s.errors[part], w.absolute) // which rounding may have hidden from take
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
