package tensor

import (
	"math"
	"slices"
	"strconv"
	"strings"
)

// Unknown marks a dimension of a signature whose size each request chooses.
const Unknown int64 = -1

// Shape is the size of each dimension, outermost first. The empty shape is a scalar: one element.
type Shape []int64

// Elements returns the product of the dimensions. It reports false when a dimension is negative (also Unknown)
// or the product exceeds the range of int64, so that a claimed shape can be checked before anything is allocated.
func (s Shape) Elements() (int64, bool) {
	n := int64(1)
	zero := false
	for _, d := range s {
		switch {
		case d < 0:
			return 0, false
		case d == 0:
			zero = true
		case n > math.MaxInt64/d:
			// Keep looking: a later zero does not make an absurd claim acceptable, nor does a later negative go unseen.
			return 0, false
		default:
			n *= d
		}
	}
	if zero {
		return 0, true
	}
	return n, true
}

// Known reports whether every dimension has a size.
func (s Shape) Known() bool { return !slices.ContainsFunc(s, func(d int64) bool { return d < 0 }) }

// Accepts reports whether a value of shape v may stand where s is declared: same rank, and equal wherever s is known.
func (s Shape) Accepts(v Shape) bool {
	if len(s) != len(v) {
		return false
	}
	for i, d := range s {
		if d != Unknown && d != v[i] {
			return false
		}
	}
	return true
}

// With returns a copy whose dimension i is n.
func (s Shape) With(i int, n int64) Shape {
	c := slices.Clone(s)
	c[i] = n
	return c
}

// String writes [2,3], with ? for an unknown dimension.
func (s Shape) String() string { return s.write(true) }

// Literal writes the shape that a request has, each number as it came: -1 is one of them there, and as wrong as -4.
func (s Shape) Literal() string { return s.write(false) }

func (s Shape) write(open bool) string {
	var b strings.Builder
	b.WriteByte('[')
	for i, d := range s {
		if i > 0 {
			b.WriteByte(',')
		}
		if d < 0 && open {
			b.WriteByte('?')
		} else {
			b.WriteString(strconv.FormatInt(d, 10))
		}
	}
	b.WriteByte(']')
	return b.String()
}

// HasRows reports whether the shape has so many rows along dim; where there are none to have (NoBatch), it does.
func (s Shape) HasRows(dim, rows int) bool {
	return dim == NoBatch || dim < len(s) && s[dim] == int64(rows)
}

// EqualBut reports whether two shapes are equal in every dimension but dim.
func (s Shape) EqualBut(dim int, t Shape) bool {
	return len(s) == len(t) && slices.Equal(s[:dim], t[:dim]) && slices.Equal(s[dim+1:], t[dim+1:])
}
