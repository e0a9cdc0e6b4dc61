package structure

import "slices"

// slice takes a part along some axes.
func slice(c *call) []*value {
	v, ok := c.data(0)
	if !ok {
		return nil
	}
	b, ok := c.bounds(v)
	if !ok {
		return nil
	}
	out := like(v, slices.Clone(v.dims), v.axis)
	for i, a := range b.axes {
		at, ok := c.place(a, v.rank())
		if !ok {
			return nil
		}
		start, end, step := b.starts[i], b.ends[i], b.steps[i]
		first, fixedFirst := start.fixed()
		stride, fixedStep := step.fixed()
		whole := fixedFirst && first == 0 && fixedStep && stride == 1 &&
			(end.far > 0 || end.known && end.equal(v.dims[at]))
		switch {
		case whole:
		case v.holds(at):
			return c.meets(0, "takes a part of")
		case start.dependsOnCount() || end.dependsOnCount() || step.dependsOnCount():
			return c.no("where it cuts %s depends on how many rows there are", c.name(0))
		default:
			out.dims[at] = c.cut(v.dims[at], start, end, step)
		}
	}
	if v.kind != rows && v.elems != nil {
		return []*value{c.cutElems(v, out, b)}
	}
	return []*value{out}
}

// bounds are the parameters of a slice, one for each axis.
type bounds struct {
	axes                []int64
	starts, ends, steps []elem
}

func (c *call) bounds(v *value) (b bounds, ok bool) {
	if c.version < 10 {
		starts, ok := c.integers("starts")
		if !ok {
			return b, false
		}
		ends, ok := c.integers("ends")
		if !ok {
			return b, false
		}
		if b.axes, ok = c.integers("axes"); !ok {
			return b, false
		}
		b.starts, b.ends = numbers(starts), numbers(ends)
	} else {
		for i := 1; i < len(c.in); i++ {
			if c.in[i] != nil && c.in[i].kind == rows {
				return b, c.differs(i)
			}
		}
		if b.axes, ok = c.constants(3); !ok {
			return b, false
		}
		if b.starts, ok = c.elements(1, len(b.axes)); !ok {
			return b, false
		}
		if b.ends, ok = c.elements(2, len(b.starts)); !ok {
			return b, false
		}
		if c.input(4) != nil {
			if b.steps, ok = c.elements(4, len(b.starts)); !ok {
				return b, false
			}
		}
	}
	if b.axes == nil {
		for i := range b.starts {
			b.axes = append(b.axes, int64(i))
		}
	}
	if b.steps == nil {
		b.steps = slices.Repeat([]elem{number(1)}, len(b.starts))
	}
	if len(b.starts) != len(b.axes) || len(b.ends) != len(b.axes) || len(b.steps) != len(b.axes) {
		return b, c.bad("its starts, ends, axes and steps are not of one length")
	}
	seen := map[int]bool{}
	for _, a := range b.axes {
		at, ok := c.place(a, v.rank())
		if !ok {
			return b, false
		}
		if seen[at] {
			return b, c.bad("its axes name a dimension twice")
		}
		seen[at] = true
	}
	return b, true
}

// elements returns what is known of a list that is an input. Where nothing is, it is as long as expected (where that is
// not 0), or as the input's shape says.
func (c *call) elements(i, expected int) ([]elem, bool) {
	v := c.input(i)
	switch {
	case v == nil:
		return nil, c.bad("it lacks its input %d", i)
	case v.elems != nil:
		return v.elems, true
	case v.kind == counts:
		return nil, c.differs(i)
	}
	if expected == 0 && v.ranked && v.rank() == 1 {
		if n, fixed := v.dims[0].fixed(); fixed && n <= maxElems {
			expected = int(n)
		}
	}
	if expected == 0 {
		return nil, c.bad("what %s holds is not known before it runs", c.name(i))
	}
	return make([]elem, expected), true
}

// cut is the size of a part.
func (c *call) cut(d dim, start, end, step elem) dim {
	n, fixed := d.fixed()
	if !fixed || !step.known || !step.is(1) {
		return c.fresh()
	}
	from, okFrom := bound(start, n)
	to, okTo := bound(end, n)
	if !okFrom || !okTo {
		return c.fresh()
	}
	return size(max(0, to-from))
}

// bound is a bound within n entries; not ok: it is not known.
func bound(e elem, n int64) (int64, bool) {
	if e.far > 0 {
		return n, true
	}
	if e.far < 0 {
		return 0, true
	}
	at, fixed := e.fixed()
	if !fixed || n > maxCoef {
		return 0, false
	}
	return int64(clamp(at, int(n))), true
}

// cutElems is a part of a small tensor, where the bounds are known.
func (c *call) cutElems(v, out *value, b bounds) *value {
	places := make([][]int, v.rank())
	for at, d := range v.dims {
		for i := range int(d.coef) { // of a tensor with known elements all dimensions are
			places[at] = append(places[at], i)
		}
	}
	for i, a := range b.axes {
		at, _ := c.place(a, v.rank())
		n := v.dims[at].coef
		step, fixed := b.steps[i].fixed()
		if !fixed || step == 0 {
			return out
		}
		from, okFrom := bound(b.starts[i], n)
		to, okTo := bound(b.ends[i], n)
		if step < 0 {
			from, okFrom = boundBack(b.starts[i], n)
			to, okTo = boundBack(b.ends[i], n)
		}
		if !okFrom || !okTo {
			return out
		}
		places[at] = nil
		for j := from; step > 0 && j < to || step < 0 && j > to; j += step {
			places[at] = append(places[at], int(j))
		}
		out.dims[at] = size(int64(len(places[at])))
	}
	return out.withElems(taken(v, places))
}

// boundBack is a bound of a slice that runs backwards: at most the last entry, and -1 for behind the first.
func boundBack(e elem, n int64) (int64, bool) {
	at, fixed := e.fixed()
	switch {
	case e.far > 0:
		return n - 1, true
	case e.far < 0:
		return -1, true
	case !fixed:
		return 0, false
	case at < 0:
		at += n
	}
	return min(max(at, -1), n-1), true
}

// taken returns the elements of v at the given places along each dimension, in row-major order.
func taken(v *value, places [][]int) []elem {
	at := []int{0}
	for axis, d := range v.dims {
		next := make([]int, 0, len(at)*len(places[axis]))
		for _, base := range at {
			for _, i := range places[axis] {
				next = append(next, base*int(d.coef)+i)
			}
		}
		at = next
	}
	elems := make([]elem, 0, len(at))
	for _, i := range at {
		elems = append(elems, v.elems[i])
	}
	return elems
}

// pad puts something around, or takes something away.
func pad(c *call) []*value {
	v, ok := c.data(0)
	if !ok || !c.uniform(1) {
		return nil
	}
	pads, ok := c.integers("pads")
	if ok && c.version >= 11 {
		pads, ok = c.constants(1)
	}
	if !ok {
		return nil
	}
	axes, given := []int64(nil), false
	if c.version >= 18 {
		if axes, ok = c.constants(3); !ok {
			return nil
		}
		given = c.input(3) != nil
	}
	if !given {
		for at := range v.rank() {
			axes = append(axes, int64(at))
		}
	}
	if len(pads) != 2*len(axes) {
		return c.no("it has %d pads for %d dimensions", len(pads), len(axes))
	}
	out := like(v, slices.Clone(v.dims), v.axis)
	for i, a := range axes {
		at, ok := c.place(a, v.rank())
		if !ok {
			return nil
		}
		before, after := pads[i], pads[len(axes)+i]
		if before == 0 && after == 0 {
			continue
		}
		if v.holds(at) {
			return c.meets(0, "pads")
		}
		d := c.fresh()
		if n, fixed := v.dims[at].fixed(); fixed && n+before+after >= 0 {
			d = size(n + before + after)
		}
		out.dims[at] = d
	}
	return []*value{out}
}

// depthToSpace moves entries of the second dimension into those after it, or back.
func depthToSpace(c *call) []*value {
	v, ok := c.data(0)
	if !ok {
		return nil
	}
	if v.rank() != 4 {
		return c.no("it needs 4 dimensions")
	}
	if v.kind == rows && v.axis != 0 {
		return c.meets(0, "rearranges")
	}
	return []*value{like(v, []dim{v.dims[0], c.fresh(), c.fresh(), c.fresh()}, 0)}
}

// trilu keeps a triangle of the last two dimensions.
func trilu(c *call) []*value {
	v, ok := c.data(0)
	if !ok || !c.uniform(1) {
		return nil
	}
	if v.kind == rows && v.axis >= v.rank()-2 {
		return c.meets(0, "cuts a triangle out of")
	}
	return []*value{like(v, v.dims, v.axis)}
}

// reverseSequence turns each sequence around, as far as its length says.
func reverseSequence(c *call) []*value {
	v, ok := c.data(0)
	if !ok {
		return nil
	}
	lengths, ok := c.data(1)
	if !ok {
		return nil
	}
	batch, ok := c.integer("batch_axis", 1)
	if !ok {
		return nil
	}
	switch {
	case v.kind == rows && int64(v.axis) != batch:
		return c.no("dimension %d, which holds the rows of %s, is not the one of its sequences", v.axis, c.name(0))
	case v.kind != rows || lengths.kind != rows || lengths.rank() != 1 || !lengths.dealtAs(v):
		return c.no("its sequences and their lengths are not both rows")
	}
	return []*value{like(v, v.dims, v.axis)}
}
