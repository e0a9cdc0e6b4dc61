package structure

import "slices"

// Operators that sample images at places between their entries.
var imageOperators = tableOf(
	each("", operator{apply: resize, counts: true}, "Resize"),
	each("", operator{apply: gridSample}, "GridSample"),
)

// resize scales dimensions; that of the rows must be left as it is.
func resize(c *call) []*value {
	v := c.content()
	if mode := c.text("coordinate_transformation_mode", ""); mode == "tf_crop_and_resize" {
		return c.no("there is no rule for the mode %q", mode)
	}
	if policy := c.text("keep_aspect_ratio_policy", "stretch"); policy != "stretch" {
		return c.no("there is no rule for the policy %q", policy)
	}
	if v.kind == rows {
		c.samples(v)
	}
	axes := c.integers("axes")
	if axes == nil {
		axes = upTo(v.rank())
	}
	c.rowless(1)
	dims := slices.Clone(v.dims)
	for i, a := range axes {
		c.resized(v, i, c.place(a, v.rank()), len(axes), dims)
	}
	if v.kind == rows && c.text("mode", "nearest") != "nearest" &&
		(!dims[0].equal(v.dims[0]) || !dims[1].equal(v.dims[1])) {
		return c.no("it interpolates along dimension 0 or 1 too")
	}
	return []*value{like(v, dims, v.axis)}
}

// samples demands that entries of different rows are not weighted against each other. Where an engine
// interpolates along a dimension whose size stays, it does so with a weight of zero, which makes NaN of a neighbour's
// infinity. Images of four or five dimensions it takes one by one, by channels.
func (c *call) samples(v *value) {
	mode, smooth := c.text("mode", "nearest"), c.flag("antialias", false)
	if smooth || mode != "nearest" && (v.rank() < 4 || v.rank() > 5 || v.axis > 1 || mode == "cubic" && v.rank() != 4) {
		c.no("it interpolates between the entries of dimension %d, which holds the rows of %s", v.axis,
			c.name(0))
	}
}

// resized puts the size of one dimension into dims, whose parameters are the i-th of n.
func (c *call) resized(v *value, i, at, n int, dims []dim) {
	scales, sizes := 2, 3
	if c.version < 11 {
		scales, sizes = 1, -1
	}
	s := c.input(scales)
	if s != nil && len(s.floats) == n && n > 0 {
		switch {
		case s.floats[i] == 1:
			return
		case v.holds(at):
			c.meets(0, "resizes")
		}
		dims[at] = c.fresh()
		return
	}
	var want *dim
	if sizes >= 0 && c.input(sizes) != nil && c.input(sizes).elems != nil {
		if list := c.wanted(sizes); len(list) == n {
			want = list[i]
		}
	}
	switch {
	case v.holds(at) && (want == nil || !want.equal(v.dims[at])):
		c.meets(0, "may resize")
	case v.holds(at):
	case want == nil:
		for j := 1; j < len(c.in); j++ {
			if c.in[j] != nil && c.in[j].kind == counts && c.in[j].elems == nil {
				c.differs(j)
			}
		}
		dims[at] = c.fresh()
	case want.n:
		c.no("it resizes dimension %d by the number of rows", at)
	default:
		dims[at] = *want
	}
}

// gridSample takes of each image at the places that its grid says.
func gridSample(c *call) []*value {
	v := c.data(0)
	grid := c.data(1)
	c.alike(v, grid)
	if v.axis != 0 || v.rank() < 3 || grid.rank() != v.rank() {
		return c.no("its images and grids are not rows along dimension 0")
	}
	dims := slices.Concat(v.dims[:2], grid.dims[1:grid.rank()-1])
	return []*value{like(v, dims, 0)}
}
