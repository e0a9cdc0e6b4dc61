package structure

import (
	"slices"

	"github.com/weftserve/weft/proto/gen/onnx"
)

// arithmetic computes the elements of small tensors of integers, as shapes are computed; nil: they are not followed.
func (c *call) arithmetic(ins []*value, dims []dim) []elem {
	if domain := standard(c.node.GetDomain()); domain != "" {
		return nil
	}
	n, ok := product(dims)
	count, fixed := n.fixed()
	if !ok || !fixed || count < 0 || count > maxElems {
		return nil
	}
	for _, v := range ins {
		if v.elems == nil {
			return nil
		}
	}
	op := c.node.GetOpType()
	if op == "Cast" {
		return c.castElems(ins[0].elems)
	}
	out := make([]elem, 0, count)
	for i := range int(count) {
		args := make([]elem, len(ins))
		for j, v := range ins {
			args[j] = v.elems[broadcastIndex(i, dims, v.dims)]
		}
		e, ok := c.p.compute(op, args)
		if !ok {
			return nil
		}
		out = append(out, e)
	}
	return out
}

// broadcastIndex is where the element of a small tensor is that broadcasts to the i-th of dims, which are all fixed.
func broadcastIndex(i int, dims, own []dim) int {
	index, stride := 0, 1
	for back := 1; back <= len(dims); back++ {
		d := int(dims[len(dims)-back].coef)
		at := i % d
		i /= d
		if back <= len(own) {
			if o := int(own[len(own)-back].coef); o != 1 {
				index += at * stride
				stride *= o
			}
		}
	}
	return index
}

// castElems keeps the elements that a cast does not change.
func (c *call) castElems(elems []elem) []elem {
	switch onnx.TensorProto_DataType(c.hint("to", 0)) {
	case onnx.TensorProto_INT64:
		return elems
	case onnx.TensorProto_INT32:
		out := slices.Clone(elems)
		for i := range out {
			out[i].far = 0 // it may overflow
			out[i] = c.p.bounded(out[i], out[i], elem{narrow: true})
		}
		return out
	case onnx.TensorProto_BOOL:
		out := make([]elem, 0, len(elems))
		for _, e := range elems {
			if n, fixed := e.fixed(); fixed {
				out = append(out, number(truth(n != 0)))
			} else {
				out = append(out, unclear(e))
			}
		}
		return out
	default:
		return nil
	}
}

// unclear is an element that only one thing is known about: whether it may depend on how many rows there are.
func unclear(args ...elem) elem {
	var e elem
	for _, a := range args {
		e.rough = e.rough || a.dependsOnCount()
	}
	return e
}

// compute is one element; not ok: it is not known how the operator treats integers.
func (p *prover) compute(op string, args []elem) (elem, bool) {
	switch op {
	case "Identity":
		return args[0], true
	case "Where":
		if len(args) != 3 {
			return elem{}, false
		}
		switch cond, fixed := args[0].fixed(); {
		case !fixed:
			return unclear(args...), true
		case cond != 0:
			return args[1], true
		}
		return args[2], true
	}
	if f := ofOne[op]; f != nil {
		n, ok := args[0].fixed()
		if !ok {
			return unclear(args...), true
		}
		return number(f(n)), true
	}
	if _, ok := ofTwo[op]; !ok {
		return elem{}, false
	}
	e := args[0]
	for _, arg := range args[1:] {
		e = p.combine(op, e, arg)
	}
	return e, true
}

func sign(n int64) int64 { return truth(n > 0) - truth(n < 0) }

func truth(b bool) int64 {
	if b {
		return 1
	}
	return 0
}

// combine computes with two elements.
func (p *prover) combine(op string, a, b elem) elem {
	n, fixedA := a.fixed()
	m, fixedB := b.fixed()
	if fixedA && fixedB {
		f := ofTwo[op]
		if f == nil || (op == "Div" || op == "Mod") && (n < 0 || m <= 0) {
			return elem{}
		}
		e := number(f(n, m))
		e.far = 0 // where the engine computes with 32 bits, it may have overflowed
		return e
	}
	if !a.known || !b.known {
		return unclear(a, b)
	}
	e := binarySizes(op, a.dim, b.dim)
	if !e.known {
		e = p.newSize(op, a.dim, b.dim)
	}
	if !e.known {
		return unclear(a, b)
	}
	if op == "Mul" && e.is(0) {
		return e // whatever the other one is
	}
	return p.bounded(e, a, b)
}

// newSize is the size that comes of two that do not depend on how many rows there are, where nothing is taken away.
func (p *prover) newSize(op string, a, b dim) elem {
	if a.n || b.n || a.coef < 0 || b.coef < 0 {
		return elem{}
	}
	x, y := p.extentOf(a), p.extentOf(b)
	switch op {
	case "Add", "Sum":
		x = extent{positive: x.positive || y.positive, bits: max(x.bits, y.bits) + 1}
	case "Mul":
		x = extent{positive: x.positive && y.positive, bits: x.bits + y.bits}
	case "Max":
		x = extent{positive: x.positive || y.positive, bits: max(x.bits, y.bits)}
	case "Min":
		x = extent{positive: x.positive && y.positive, bits: min(x.bits, y.bits)}
	case "Div", "Mod":
		if b.coef == 0 {
			return elem{}
		}
		x.positive = false
	default:
		return elem{}
	}
	x.parts = slices.Concat(a.syms, b.syms)
	return elem{dim: p.symbol(x), known: true}
}

// bounded is an element that was computed of two others, if it is not sure to be right where something overflowed.
func (p *prover) bounded(e, a, b elem) elem {
	e.narrow = a.narrow || b.narrow
	if !e.known {
		return e
	}
	most := 63
	if e.narrow {
		most = sizeBits
	}
	peak, ok := a.peak.multiple(b.peak)
	if ok && p.extentOf(e.dim).bits > most {
		peak, ok = peak.multiple(e.dim)
	}
	// What follows from a number that is another one after an overflow is not known.
	if _, fixed := e.fixed(); !ok || peak.coef < 0 || peak.coef > 0 && (fixed || !e.derives(a, b)) {
		return unclear(a, b, e)
	}
	e.peak = peak
	return e
}

// derives reports whether an element is made of the symbols of others, rather than of a new one.
func (e elem) derives(others ...elem) bool {
	return !slices.ContainsFunc(e.syms, func(s symbol) bool {
		return !slices.ContainsFunc(others, func(o elem) bool { return slices.Contains(o.syms, s) })
	})
}

// ofOne has the results of operators for one number.
var ofOne = map[string]func(n int64) int64{
	"Not":  func(n int64) int64 { return truth(n == 0) },
	"Neg":  func(n int64) int64 { return -n },
	"Abs":  func(n int64) int64 { return max(n, -n) },
	"Sign": sign,
}

// ofTwo has the results of operators for two numbers; nil: the operator is not followed.
var ofTwo = map[string]func(n, m int64) int64{
	"Add":            func(n, m int64) int64 { return n + m },
	"Sum":            func(n, m int64) int64 { return n + m },
	"Sub":            func(n, m int64) int64 { return n - m },
	"Mul":            func(n, m int64) int64 { return n * m },
	"Div":            func(n, m int64) int64 { return n / m },
	"Mod":            func(n, m int64) int64 { return n % m },
	"Max":            func(n, m int64) int64 { return max(n, m) },
	"Min":            func(n, m int64) int64 { return min(n, m) },
	"Equal":          func(n, m int64) int64 { return truth(n == m) },
	"Less":           func(n, m int64) int64 { return truth(n < m) },
	"LessOrEqual":    func(n, m int64) int64 { return truth(n <= m) },
	"Greater":        func(n, m int64) int64 { return truth(n > m) },
	"GreaterOrEqual": func(n, m int64) int64 { return truth(n >= m) },
	"And":            func(n, m int64) int64 { return truth(n != 0 && m != 0) },
	"Or":             func(n, m int64) int64 { return truth(n != 0 || m != 0) },
	"Xor":            nil,
}

// binarySizes computes with two sizes where the result is one again; else the result is not known.
func binarySizes(op string, a, b dim) elem {
	alike := dim{coef: 1, n: a.n, syms: a.syms}.equal(dim{coef: 1, n: b.n, syms: b.syms})
	d, ok := dim{}, false
	switch op {
	case "Add", "Sum":
		switch {
		case b.is(0):
			d, ok = a, true
		case a.is(0):
			d, ok = b, true
		case alike && a.coef > 0 && b.coef > 0:
			d, ok = dim{coef: a.coef + b.coef, n: a.n, syms: a.syms}, small(a.coef+b.coef)
		}
	case "Sub":
		switch {
		case b.is(0):
			d, ok = a, true
		case alike && a.coef == b.coef:
			d, ok = zero, true
		case alike && a.coef > b.coef:
			d, ok = dim{coef: a.coef - b.coef, n: a.n, syms: a.syms}, true
		}
	case "Mul":
		if d, ok = a.times(b); ok && d.coef < 0 {
			ok = false
		}
	case "Div":
		if a.coef >= 0 && b.coef > 0 {
			d, ok = a.over(b)
		}
	case "Equal":
		// A size is not negative, and there is at least one row.
		if impossible(a, b) || impossible(b, a) {
			return number(0)
		}
		if a.equal(b) {
			return number(1)
		}
	case "Max":
		if m, fixed := b.fixed(); fixed && (m <= 0 || m == 1 && a.n && len(a.syms) == 0) && a.coef > 0 {
			return elem{dim: a, known: true}
		}
		if n, fixed := a.fixed(); fixed && (n <= 0 || n == 1 && b.n && len(b.syms) == 0) && b.coef > 0 {
			return elem{dim: b, known: true}
		}
	default:
	}
	return elem{dim: d, known: ok}
}

// impossible reports whether a size cannot be that number.
func impossible(size, number dim) bool {
	n, fixed := number.fixed()
	_, alsoFixed := size.fixed()
	return fixed && !alsoFixed && size.coef > 0 && (n < 0 || n == 0 && size.n && len(size.syms) == 0)
}
