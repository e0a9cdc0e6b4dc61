package structure

import "slices"

// Operators that move elements about, or leave some out.
var reshapeOperators = tableOf(
	each("", operator{apply: reshape, counts: true}, "Reshape"),
	each("", operator{apply: flatten}, "Flatten"),
	each("", operator{apply: squeeze, counts: true}, "Squeeze"),
	each("", operator{apply: unsqueeze, counts: true}, "Unsqueeze"),
	each("", operator{apply: transpose, counts: true}, "Transpose"),
	each("", operator{apply: concat, counts: true}, "Concat"),
	each("", operator{apply: split}, "Split"),
	each("", operator{apply: slice, counts: true}, "Slice"),
	each("", operator{apply: pad}, "Pad"),
	each("", operator{apply: depthToSpace}, "DepthToSpace", "SpaceToDepth"),
	each("", operator{apply: trilu}, "Trilu"),
	each("", operator{apply: reverseSequence}, "ReverseSequence"),
)

func reshape(c *call) []*value {
	v := c.data(0)
	shape := c.followed(1)
	return c.reshaped(v, shape.elems, c.flag("allowzero", false))
}

// reshaped gives v the wanted dimensions: 0 is the one that v has there (unless zero is allowed), and -1 whatever is
// left.
func (c *call) reshaped(v *value, want []elem, allowZero bool) []*value {
	total, ok := product(v.dims)
	if !ok {
		return c.no("its input is too large to follow")
	}
	dims := make([]*dim, len(want)) // nil: not known
	rest := -1
	for i, e := range want {
		n, fixed := e.fixed()
		switch {
		case fixed && n == -1 && rest >= 0:
			return c.no("its shape has -1 twice")
		case fixed && n == -1:
			rest = i
		case fixed && n == 0 && !allowZero:
			if i >= v.rank() {
				return c.refuse("its shape copies a dimension that there is not")
			}
			dims[i] = &v.dims[i]
		case e.known && e.coef >= 0 && e.within(total):
			dims[i] = &e.dim
		case e.known && e.n:
			return c.no("it makes a dimension by arithmetic that may overflow")
		case e.dependsOnCount() || fixed:
			return c.no("it makes a dimension that is no multiple of the number of rows")
		default:
			// It may be -1 or 0 when it runs; that is the same for all rows.
		}
	}
	if !allowZero {
		c.copied(v, dims, rest, total)
	}
	if rest >= 0 {
		if left, ok := c.left(total, dims, rest); ok {
			dims[rest] = &left
		} else if v.kind == rows && !slices.ContainsFunc(dims, func(d *dim) bool { return d != nil && d.n }) {
			return c.no("whether the rows of %s stay whole is not known: what its shape leaves for -1 is not",
				c.name(0))
		}
	} else if all, ok := known(dims); ok && c.p.differ(all, total) {
		return c.refuse("its shape has another number of elements")
	}
	out := &value{kind: v.kind, ranked: true}
	axis := -1
	for i, d := range dims {
		if d != nil && d.n {
			if axis >= 0 {
				return c.no("it makes a tensor with the number of rows in two dimensions")
			}
			axis = i
		}
		if d == nil {
			fresh := c.fresh()
			d = &fresh
		}
		out.dims = append(out.dims, *d)
	}
	switch {
	case v.kind != rows:
		if axis >= 0 {
			return c.no("it makes a dimension of the number of rows of what does not have them")
		}
		if v.elems != nil {
			return []*value{c.regrouped(v, out)}
		}
		return []*value{out}
	case axis < 0 && total.is(0): // it has no entries, and so many dimensions for any number of rows
		out.kind = shared
		return []*value{out}
	case axis < 0:
		return c.no("its shape has no place for the rows of %s", c.name(0))
	}
	out.axis = axis
	if total.is(0) {
		out.outer, out.inner = one, out.dims[axis].without()
		return []*value{out}
	}
	c.regroup(v, dims, out)
	return []*value{out}
}

// within reports whether an element of a shape is the size that it is taken for in a tensor of so many entries.
func (e elem) within(total dim) bool {
	if e.exact() {
		return true
	}
	_, ok := total.over(e.peak)
	return ok && !total.is(0)
}

// copied looks for dimensions that may be 0 when it runs, and copy then what v has there, which is not 0. Their sizes
// become unknown, unless the engine would refuse a shape of so many entries.
func (c *call) copied(v *value, dims []*dim, rest int, total dim) {
	for i, d := range dims {
		if i >= v.rank() || d == nil || c.p.extentOf(*d).positive || d.is(0) {
			continue // a 0 behind the last dimension is refused
		}
		var alone []symbol // that may be 0 while v has entries there
		for _, s := range d.syms {
			if !c.p.symbols[s].positive && !slices.Contains(v.dims[i].syms, s) {
				alone = append(alone, s)
			}
		}
		if len(alone) == 0 || rest < 0 && c.refusedEmpty(v, dims, i, alone, total) {
			continue
		}
		for _, s := range alone {
			c.p.decideZero(s)
		}
		if d.n || v.dims[i].n {
			c.no("whether its shape copies dimension %d, as for 0, is not known", i)
		}
		dims[i] = nil
	}
}

// refusedEmpty reports whether no shape has as many entries as v, which are 0 if any of some symbols is 0, where
// dimension i copies one that is not 0.
func (c *call) refusedEmpty(v *value, dims []*dim, i int, symbols []symbol, total dim) bool {
	for _, s := range symbols {
		if !slices.Contains(total.syms, s) {
			return false
		}
	}
	for j, d := range dims {
		if d == nil || d.is(0) || j != i && j < v.rank() && !c.p.extentOf(*d).positive &&
			!c.p.extentOf(v.dims[j]).positive {
			return false
		}
	}
	return true
}

// differ reports whether two numbers of entries are sure to differ.
func (p *prover) differ(d, e dim) bool {
	n, fixedD := d.fixed()
	m, fixedE := e.fixed()
	return fixedD && fixedE && n != m || d.is(0) && p.extentOf(e).positive || e.is(0) && p.extentOf(d).positive
}

// regrouped keeps the elements of a small tensor.
func (c *call) regrouped(v, out *value) *value {
	if p, ok := product(out.dims); ok && p.is(int64(len(v.elems))) {
		return out.withElems(v.elems)
	}
	return out
}

// left is the size that -1 stands for.
func (c *call) left(total dim, dims []*dim, rest int) (dim, bool) {
	for i, d := range dims {
		if i == rest {
			continue
		}
		if d == nil {
			return dim{}, false
		}
		if d.is(0) {
			c.refuse("its shape leaves nothing for -1")
		}
		var ok bool
		if total, ok = total.over(*d); !ok {
			return dim{}, false
		}
	}
	return total, true
}

// regroup finds how the rows lie in a reshaped tensor. In memory the element (l, n, r) of v is at (l·N + n)·R + r,
// where l < L counts the entries left of the rows and r < R those right of them. A dimension A·N·B with P entries to
// its left and S to its right has its rows in the same elements if and only if P·A = L and B·S = R. Either follows from
// the other where the engine refuses a shape that does not have as many elements. ONNX Runtime does not always: it may
// put -1 for one computed dimension. So both are demanded where both can be said.
func (c *call) regroup(v *value, dims []*dim, out *value) {
	multiple := out.dims[out.axis].without()
	left, okLeft := outside(v.dims[:v.axis], v.outer)
	right, okRight := outside(v.dims[v.axis+1:], v.inner)
	before, okBefore := known(dims[:out.axis])
	after, okAfter := known(dims[out.axis+1:])
	if okLeft && okBefore {
		outer, ok := left.over(before)
		if !ok {
			c.apart()
		}
		inner, ok := multiple.over(outer)
		if !ok {
			c.apart()
		}
		if okRight && okAfter {
			if all, ok := inner.times(after); !ok || !all.equal(right) {
				c.apart()
			}
		}
		out.outer, out.inner = outer, inner
		return
	}
	if okRight && okAfter {
		if inner, ok := right.over(after); ok {
			if outer, ok := multiple.over(inner); ok {
				out.outer, out.inner = outer, inner
				return
			}
		}
	}
	c.apart()
}

func (c *call) apart() { c.no("it may take the rows of %s apart", c.name(0)) }

func outside(dims []dim, part dim) (dim, bool) {
	p, ok := product(dims)
	if !ok {
		return dim{}, false
	}
	return p.times(part)
}

// known is the product of dimensions if all are known.
func known(dims []*dim) (dim, bool) {
	list := make([]dim, 0, len(dims))
	for _, d := range dims {
		if d == nil {
			return dim{}, false
		}
		list = append(list, *d)
	}
	return product(list)
}

func flatten(c *call) []*value {
	v := c.data(0)
	at := c.integer("axis", 1)
	if at < 0 {
		at += int64(v.rank())
	}
	if at < 0 || at > int64(v.rank()) {
		return c.no("its axis does not fit %d dimensions", v.rank())
	}
	before, okBefore := product(v.dims[:at])
	after, okAfter := product(v.dims[at:])
	if !okBefore || !okAfter {
		return c.no("its input is too large to follow")
	}
	// Nothing is copied or left over: a dimension of zero entries means just that.
	return c.reshaped(v, []elem{{dim: before, known: true}, {dim: after, known: true}}, true)
}

func squeeze(c *call) []*value {
	v := c.data(0)
	axes := c.axes(13, 1)
	drop := c.marked(axes, v.rank())
	out := like(v, nil, v.axis)
	for at, d := range v.dims {
		if len(axes) == 0 {
			if _, fixed := d.fixed(); !fixed {
				return c.no("without axes it drops dimension %d where that has one entry", at)
			}
			drop[at] = d.is(1)
		}
		switch {
		case !drop[at]:
			out.dims = append(out.dims, d)
		case v.holds(at):
			return c.meets(0, "drops")
		case at < v.axis:
			out.axis--
		}
	}
	return []*value{withSame(out, v)}
}

// withSame keeps the elements of v in a tensor that has the same ones in the same order.
func withSame(out, v *value) *value {
	if v.kind == rows {
		return out
	}
	return out.withElems(v.elems)
}

func unsqueeze(c *call) []*value {
	v := c.data(0)
	axes := c.axes(13, 1)
	if c.version < 11 && slices.ContainsFunc(axes, func(axis int64) bool { return axis < 0 }) {
		return c.no("its axes count from the end, which ONNX Runtime does in two ways before operator set 11")
	}
	out := like(v, v.dims, v.axis)
	for at, isNew := range c.distinct(axes, v.rank()+len(axes)) {
		if isNew {
			out = out.added(at, one)
		}
	}
	return []*value{withSame(out, v)}
}

func transpose(c *call) []*value {
	v := c.data(0)
	perm := c.integers("perm")
	if perm == nil {
		perm = upTo(v.rank())
		slices.Reverse(perm)
	}
	if len(perm) != v.rank() {
		return c.no("it permutes %d dimensions of %d", len(perm), v.rank())
	}
	seen := make([]bool, v.rank())
	out := like(v, nil, 0)
	for at, from := range perm {
		if from < 0 || from >= int64(v.rank()) || seen[from] {
			return c.no("its permutation is none")
		}
		seen[from] = true
		if v.holds(int(from)) {
			out.axis = at
		}
		out.dims = append(out.dims, v.dims[from])
	}
	if v.kind != rows && v.elems != nil {
		out.withElems(v.taken(perm, v.places()))
	}
	return []*value{out}
}

func concat(c *call) []*value {
	first := c.data(0)
	at := c.axis(1, first)
	out := like(first, slices.Clone(first.dims), first.axis)
	elems := first.elems
	for i := range c.in {
		v := c.data(i)
		switch {
		case v.rank() != first.rank():
			return c.no("its inputs have %d and %d dimensions", first.rank(), v.rank())
		case v.holds(at):
			return c.meets(i, "concatenates along")
		case (v.kind == rows) != (first.kind == rows):
			return c.no("of its inputs some have rows and some do not")
		case v.kind == rows && (v.axis != first.axis || !v.dealtAs(first)):
			return c.no("the rows of %s lie elsewhere than those of %s", c.name(i), c.name(0))
		case v.kind == counts:
			out.kind = counts
		}
		if i > 0 {
			for j, d := range v.dims {
				// ONNX Runtime skips an input without entries, and leaves its part of the output as memory is: there is
				// no answer that could be wrong.
				if j != at && !d.equal(out.dims[j]) && !(c.p.filled(first) && c.p.filled(v)) &&
					c.p.differ(d, out.dims[j]) {
					return c.refuse("its inputs do not fit")
				}
			}
			out.dims[at] = c.sum(out.dims[at], v.dims[at])
			if elems != nil && v.elems != nil {
				elems = slices.Concat(elems, v.elems)
			} else {
				elems = nil
			}
		}
	}
	if first.rank() == 1 && out.kind != rows {
		out.withElems(elems)
	}
	return []*value{out}
}

// filled reports whether a tensor is known to have entries, and has that decided if it can be.
func (p *prover) filled(v *value) bool {
	filled := true
	for _, d := range v.dims {
		if !p.extentOf(d).positive {
			filled = false
			for _, s := range d.syms {
				p.decideZero(s)
			}
		}
	}
	return filled
}

// sum is a size made of two.
func (c *call) sum(d, e dim) dim {
	if s := c.p.combine("Add", elem{dim: d, known: true}, elem{dim: e, known: true}); s.exact() {
		return s.dim
	}
	return c.fresh()
}

func split(c *call) []*value {
	v := c.data(0)
	c.uniform(1)
	at := c.axis(0, v)
	if v.holds(at) {
		return c.meets(0, "splits")
	}
	sizes := c.integers("split")
	if c.version >= 13 {
		sizes = nil
		if !c.attempt(func() { sizes = c.constants(1) }) {
			c.reason = ""
		}
	}
	parts := make([]*value, len(c.node.GetOutput()))
	for i := range parts {
		d := c.fresh()
		switch n, fixed := v.dims[at].fixed(); {
		case i < len(sizes) && sizes[i] >= 0:
			d = size(sizes[i])
		case sizes == nil && c.input(1) == nil && fixed && n%int64(len(parts)) == 0:
			d = size(n / int64(len(parts)))
		}
		parts[i] = v.with(at, d)
	}
	return parts
}
