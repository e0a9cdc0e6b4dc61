package structure

import (
	"fmt"
	"slices"

	"github.com/weftserve/weft/proto/gen/onnx"
)

// kind says on which inputs the elements of a tensor depend. doc.go has the definitions that the rules keep to.
type kind int

const (
	shared kind = iota // on no row, and not on how many there are
	counts             // on no row, but on how many there are: the numbers that shapes are computed with
	rows               // slice n along an axis on row n, and on nothing else of the rows
	mixed              // on anything
)

// value holds the known facts about a tensor.
type value struct {
	kind   kind
	ranked bool                      // dims is known
	dtype  onnx.TensorProto_DataType // of inputs and constants, where they have one
	dims   []dim                     // of rows: N stands in dims[axis] only; else in none
	// of rows: dims[axis] is outer·N·inner, and the element at (o, n, i) there belongs to row n
	axis         int
	outer, inner dim
	own          bool         // of rows: they hold each row's own values from the caller, not the same for all
	elems        []elem       // the elements in row-major order where they are integers worth knowing; nil: not known
	floats       []float64    // of a constant of floats
	loose        map[int]bool // of a value that a loop hands on: the dimensions that change from turn to turn
	why          *cause       // of mixed
}

// elem is an element of a tensor of integers or bools. A size that is known through symbols is not negative.
type elem struct {
	dim
	known  bool
	rough  bool // not known, and may depend on the number of rows
	far    int  // not known, but beyond maxCoef: 1, or -1
	narrow bool // it was computed with 32 bits somewhere
	// Where a step that led to it may have overflowed, so that it is something else than the size: a number that the
	// engine had to be able to hold. coef 0: none may.
	peak dim
}

// cause is the operator that stands in the way, and why.
type cause struct {
	operator, reason string
	mixes            bool // values of a row are sure to reach another there, whatever follows
	// the engine is sure to refuse it when it comes there, so that there is no answer that could be wrong
	refused bool
}

// or prefers the cause that ends in no answer, then the one by which rows are sure to meet, then the other one. nil is
// none.
func (c *cause) or(other *cause) *cause {
	switch {
	case other == nil || c != nil && c.refused:
		return c
	case c == nil || other.refused || other.mixes || !c.mixes:
		return other
	}
	return c
}

// The most elements that are followed one by one.
const maxElems = 1024

// number is a constant. One that is too large to compute with is only known to lie far out, as the end of "all to the
// end" does.
func number(n int64) elem {
	if !small(n) {
		return elem{far: int(sign(n))}
	}
	return elem{dim: size(n), known: true}
}

// fixed is the element where it is one number.
func (e elem) fixed() (int64, bool) {
	if n, ok := e.dim.fixed(); ok && e.known {
		return n, true
	}
	return 0, false
}

// exact reports whether the element is the size that it is taken for, for all that may have overflowed on the way.
func (e elem) exact() bool { return e.known && e.peak.coef == 0 }

// size is the element where it can be a dimension.
func (e elem) size() (dim, bool) { return e.dim, e.exact() && e.coef >= 0 }

func (e elem) dependsOnCount() bool { return e.rough || e.known && e.n }

func sharedOf(dims []dim) *value { return &value{ranked: true, dims: dims} }

// rowsOf is a tensor with one slice per row along axis.
func rowsOf(dims []dim, axis int) *value {
	return &value{kind: rows, ranked: true, dims: dims, axis: axis, outer: one, inner: one}
}

// mixedBy is a value that nothing is known about, because of an operator ("" if it is none) and for the reason given.
func mixedBy(operator, format string, args ...any) *value {
	return &value{kind: mixed, why: &cause{operator: operator, reason: fmt.Sprintf(format, args...)}}
}

// plain reports whether the dimension of rows has exactly one entry for each.
func (v *value) plain() bool { return v.outer.is(1) && v.inner.is(1) }

// dealtAs reports whether two tensors of rows have as many entries for each, in the same order.
func (v *value) dealtAs(w *value) bool { return v.outer.equal(w.outer) && v.inner.equal(w.inner) }

// laidOutAs reports whether neither of two tensors has rows, or both have them in the same places of as many
// dimensions.
func (v *value) laidOutAs(w *value) bool {
	return v.kind != rows && w.kind != rows ||
		v.kind == w.kind && v.axis == w.axis && v.rank() == w.rank() && v.dealtAs(w)
}

func (v *value) rank() int { return len(v.dims) }

// holdsOwn reports whether there are rows that hold their own values from the caller.
func (v *value) holdsOwn() bool { return v != nil && v.kind == rows && v.own }

// isCounts reports whether there are elements that depend on how many rows there are.
func (v *value) isCounts() bool { return v != nil && v.kind == counts }

// single reports whether the tensor is known to have exactly one element.
func (v *value) single() bool {
	if !v.ranked {
		return false
	}
	p, ok := product(v.dims)
	return ok && p.is(1)
}

// positive reports whether the tensor is one number, known to be above 0.
func (v *value) positive() bool {
	if len(v.elems) != 1 {
		return false
	}
	n, fixed := v.elems[0].fixed()
	return v.elems[0].far > 0 || fixed && n > 0
}

// withElems gives a tensor of integers its elements, and the kind that follows from them.
func (v *value) withElems(elems []elem) *value {
	if len(elems) > maxElems {
		elems = nil
	}
	v.elems = elems
	if elems != nil && v.kind != rows {
		v.kind = shared
		if slices.ContainsFunc(elems, elem.dependsOnCount) {
			v.kind = counts
		}
	}
	return v
}

// holds reports whether a dimension is the one of the rows.
func (v *value) holds(axis int) bool { return v.kind == rows && v.axis == axis }

// same is the output of an operator that keeps shape and rows.
func same(v *value) []*value { return []*value{like(v, v.dims, v.axis)} }

// with is v with another size along one dimension, which is not that of its rows.
func (v *value) with(at int, d dim) *value {
	out := like(v, slices.Clone(v.dims), v.axis)
	out.dims[at] = d
	return out
}

// added is v with one more dimension.
func (v *value) added(at int, d dim) *value {
	out := like(v, slices.Insert(slices.Clone(v.dims), at, d), v.axis)
	if at <= v.axis {
		out.axis++
	}
	return out
}

// without is v less one dimension, which is not that of its rows.
func (v *value) without(at int) *value {
	out := like(v, slices.Delete(slices.Clone(v.dims), at, at+1), v.axis)
	if at < v.axis {
		out.axis--
	}
	return out
}

// like is a tensor of these dimensions, with the rows of v along axis if v has rows.
func like(v *value, dims []dim, axis int) *value {
	out := &value{kind: v.kind, ranked: true, dims: dims, own: v.own}
	if v.kind == rows {
		out.axis, out.outer, out.inner = axis, v.outer, v.inner
	}
	return out
}
