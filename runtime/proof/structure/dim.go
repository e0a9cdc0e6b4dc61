package structure

import "slices"

// symbol stands for an unknown size, the same for every row and every number of rows, such as an open length.
type symbol int

// extent is what is known of the size that a symbol stands for.
type extent struct {
	positive bool     // it is not 0
	given    bool     // it is the size of an input
	parts    []symbol // it was computed of these
	bits     int      // it is below 2 to this power
}

// sizeBits bounds sizes: no tensor of an execution has 2^31 entries along a dimension, or altogether. (doc.go)
const sizeBits = 31

// dim is a size, or an element of a computed shape: coef · N (where n is set; N is the number of rows) · the product of
// syms, which are sorted. It is a monomial on purpose: sums of different things are no dimension of rows, and become a
// new symbol or are not known.
type dim struct {
	coef int64
	n    bool
	syms []symbol
}

// The largest coefficient that is computed with: products of two stay far from overflow.
const maxCoef = 1 << 30

func size(n int64) dim { return dim{coef: n} }

var (
	one  = size(1)
	zero = size(0)
	// perRow is one for each row.
	perRow = dim{coef: 1, n: true}
)

// fixed returns the value of a size that is a number.
func (d dim) fixed() (int64, bool) { return d.coef, !d.n && len(d.syms) == 0 }

func (d dim) is(n int64) bool { return d.coef == n && !d.n && len(d.syms) == 0 }

func (d dim) equal(e dim) bool { return d.coef == e.coef && d.n == e.n && slices.Equal(d.syms, e.syms) }

// times is a product; not ok: it is no monomial (N·N), or too large to compute with.
func (d dim) times(e dim) (_ dim, ok bool) {
	if d.coef == 0 || e.coef == 0 {
		return zero, true
	}
	if d.n && e.n || !small(d.coef) || !small(e.coef) || !small(d.coef*e.coef) || len(d.syms)+len(e.syms) > 64 {
		return dim{}, false
	}
	p := dim{coef: d.coef * e.coef, n: d.n || e.n}
	if len(d.syms)+len(e.syms) > 0 {
		p.syms = slices.Concat(d.syms, e.syms)
		slices.Sort(p.syms)
	}
	return p, true
}

// over is an exact quotient; not ok: e does not divide d whatever the symbols stand for.
func (d dim) over(e dim) (_ dim, ok bool) {
	if d.coef == 0 && e.coef != 0 {
		return zero, true
	}
	if e.coef == 0 || d.coef%e.coef != 0 || e.n && !d.n {
		return dim{}, false
	}
	q := dim{coef: d.coef / e.coef, n: d.n && !e.n}
	rest := d.syms
	for _, s := range e.syms {
		i := slices.Index(rest, s)
		if i < 0 {
			return dim{}, false
		}
		rest = slices.Delete(slices.Clone(rest), i, i+1)
	}
	q.syms = rest
	return q, true
}

// multiple is the least one of both; that of 0 and a size is the size. Not ok: it is too large to compute with.
func (d dim) multiple(e dim) (_ dim, ok bool) {
	if d.coef == 0 || e.coef == 0 {
		return dim{coef: d.coef + e.coef, n: d.n || e.n, syms: slices.Concat(d.syms, e.syms)}, true
	}
	a, b := d.coef, e.coef
	for b != 0 {
		a, b = b, a%b
	}
	m := dim{coef: d.coef / a * e.coef, n: d.n || e.n, syms: slices.Clone(d.syms)}
	rest := slices.Clone(d.syms)
	for _, s := range e.syms {
		if i := slices.Index(rest, s); i >= 0 {
			rest = slices.Delete(rest, i, i+1)
		} else {
			m.syms = append(m.syms, s)
		}
	}
	slices.Sort(m.syms)
	return m, small(m.coef)
}

// since reports whether the size has a symbol that is not older than that one.
func (d dim) since(first symbol) bool {
	return slices.ContainsFunc(d.syms, func(s symbol) bool { return s >= first })
}

// without is the size without its factor N.
func (d dim) without() dim { return dim{coef: d.coef, syms: d.syms} }

func small(n int64) bool { return -maxCoef < n && n < maxCoef }

// product multiplies sizes.
func product(dims []dim) (_ dim, ok bool) {
	p := one
	for _, d := range dims {
		if p, ok = p.times(d); !ok {
			return dim{}, false
		}
	}
	return p, true
}
