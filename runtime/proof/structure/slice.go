package structure

import "slices"

// slice takes a part along some axes.
func slice(c *call) []*value {
	v := c.data(0)
	b := c.bounds(v)
	out := like(v, slices.Clone(v.dims), v.axis)
	for i, a := range b.axes {
		at := c.place(a, v.rank())
		start, end, step := b.starts[i], b.ends[i], b.steps[i]
		first, fixedFirst := start.fixed()
		stride, fixedStep := step.fixed()
		whole := fixedFirst && first == 0 && fixedStep && stride == 1 &&
			(end.far > 0 || end.exact() && end.equal(v.dims[at]))
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

func (c *call) bounds(v *value) bounds {
	var b bounds
	if c.version < 10 {
		b = bounds{
			starts: numbers(c.integers("starts")), ends: numbers(c.integers("ends")), axes: c.integers("axes"),
		}
	} else {
		c.rowless(1)
		b.axes = c.constants(3)
		b.starts = c.elements(1, len(b.axes))
		b.ends = c.elements(2, len(b.starts))
		if c.input(4) != nil {
			b.steps = c.elements(4, len(b.starts))
		}
	}
	if b.axes == nil {
		b.axes = upTo(len(b.starts))
	}
	if b.steps == nil {
		b.steps = slices.Repeat([]elem{number(1)}, len(b.starts))
	}
	if len(b.starts) != len(b.axes) || len(b.ends) != len(b.axes) || len(b.steps) != len(b.axes) {
		c.no("its starts, ends, axes and steps are not of one length")
	}
	c.distinct(b.axes, v.rank())
	return b
}

// elements returns the known facts about a list that is an input. Where none is known, it is as long as expected (where
// that is not 0), or as the input's shape says.
func (c *call) elements(i, expected int) []elem {
	v := c.given(i)
	switch {
	case v.elems != nil:
		return v.elems
	case v.kind == counts:
		c.differs(i)
	}
	if expected == 0 && v.ranked && v.rank() == 1 {
		if n, fixed := v.dims[0].fixed(); fixed && n <= maxElems {
			expected = int(n)
		}
	}
	if expected == 0 {
		c.unknown(i)
	}
	return make([]elem, expected)
}

// cut is the size of a part.
func (c *call) cut(d dim, start, end, step elem) dim {
	n, fixed := d.fixed()
	if !fixed || !step.known || !step.is(1) {
		return c.fresh()
	}
	from, okFrom := bound(start, n, 0, n)
	to, okTo := bound(end, n, 0, n)
	if !okFrom || !okTo {
		return c.fresh()
	}
	return size(max(0, to-from))
}

// bound is a bound within n entries, kept between two places; not ok: it is not known.
func bound(e elem, n, least, most int64) (int64, bool) {
	at, fixed := e.fixed()
	switch {
	case e.far > 0:
		return most, true
	case e.far < 0:
		return least, true
	case !fixed || n > maxCoef:
		return 0, false
	case at < 0:
		at += n
	}
	return min(max(at, least), most), true
}

// cutElems is a part of a small tensor, where the bounds are known.
func (c *call) cutElems(v, out *value, b bounds) *value {
	places := v.places()
	for i, a := range b.axes {
		at := c.place(a, v.rank())
		n := v.dims[at].coef
		step, fixed := b.steps[i].fixed()
		if !fixed || step == 0 {
			return out
		}
		least, most := int64(0), n
		if step < 0 { // it runs from the last entry at most, until before the first one
			least, most = -1, n-1
		}
		from, okFrom := bound(b.starts[i], n, least, most)
		to, okTo := bound(b.ends[i], n, least, most)
		if !okFrom || !okTo {
			return out
		}
		places[at] = nil
		for j := from; step > 0 && j < to || step < 0 && j > to; j += step {
			places[at] = append(places[at], int(j))
		}
		out.dims[at] = size(int64(len(places[at])))
	}
	return out.withElems(v.taken(upTo(v.rank()), places))
}

// places are those along each dimension of a small tensor, all of whose dimensions are known.
func (v *value) places() [][]int {
	places := make([][]int, v.rank())
	for at, d := range v.dims {
		for i := range int(d.coef) {
			places[at] = append(places[at], i)
		}
	}
	return places
}

// taken returns the elements of a small tensor at the given places along each dimension, in the order in which the axes
// name the dimensions: those along the last one follow each other.
func (v *value) taken(axes []int64, places [][]int) []elem {
	strides := make([]int, v.rank())
	stride := 1
	for at := v.rank() - 1; at >= 0; at-- {
		strides[at] = stride
		stride *= int(v.dims[at].coef)
	}
	at := []int{0}
	for _, axis := range axes {
		next := make([]int, 0, len(at)*len(places[axis]))
		for _, base := range at {
			for _, i := range places[axis] {
				next = append(next, base+i*strides[axis])
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
	v := c.data(0)
	c.uniform(1)
	pads := c.integers("pads")
	if c.version >= 11 {
		pads = c.constants(1)
	}
	var axes []int64
	if c.version >= 18 {
		axes = c.constants(3)
	}
	if axes == nil {
		axes = upTo(v.rank())
	}
	if len(pads) != 2*len(axes) {
		return c.no("it has %d pads for %d dimensions", len(pads), len(axes))
	}
	out := like(v, slices.Clone(v.dims), v.axis)
	for i, a := range axes {
		at := c.place(a, v.rank())
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
	v := c.data(0)
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
	v := c.data(0)
	c.uniform(1)
	if v.kind == rows && v.axis >= v.rank()-2 {
		return c.meets(0, "cuts a triangle out of")
	}
	return same(v)
}

// reverseSequence turns each sequence around, as far as its length says.
func reverseSequence(c *call) []*value {
	v := c.data(0)
	lengths := c.data(1)
	batch := c.integer("batch_axis", 1)
	switch {
	case v.kind == rows && int64(v.axis) != batch:
		return c.no("dimension %d, which holds the rows of %s, is not the one of its sequences", v.axis, c.name(0))
	case v.kind != rows || lengths.kind != rows || lengths.rank() != 1 || !lengths.dealtAs(v):
		return c.no("its sequences and their lengths are not both rows")
	}
	return same(v)
}
