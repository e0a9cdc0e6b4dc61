package structure

import "slices"

// Operators that sample images at places between their entries.
var imageOperators = tableOf(
	each("", operator{apply: resize, counts: true}, "Resize"),
	each("", operator{apply: gridSample}, "GridSample"),
)

// resize scales dimensions; that of the rows must be left as it is.
func resize(c *call) []*value {
	v, ok := c.data(0)
	if !ok {
		return nil
	}
	if v.kind == counts {
		c.differs(0)
		return nil
	}
	if mode, ok := c.text("coordinate_transformation_mode", ""); !ok || mode == "tf_crop_and_resize" {
		return c.no("there is no rule for the mode %q", mode)
	}
	if policy, ok := c.text("keep_aspect_ratio_policy", "stretch"); !ok || policy != "stretch" {
		return c.no("there is no rule for the policy %q", policy)
	}
	if v.kind == rows && !c.samples(v) {
		return nil
	}
	axes, ok := c.integers("axes")
	if !ok {
		return nil
	}
	if c.attrs["axes"] == nil {
		for at := range v.rank() {
			axes = append(axes, int64(at))
		}
	}
	for i := range c.in {
		if i > 0 && c.in[i] != nil && c.in[i].kind == rows {
			c.differs(i)
			return nil
		}
	}
	dims := slices.Clone(v.dims)
	for i, a := range axes {
		at, ok := c.place(a, v.rank())
		if !ok {
			return nil
		}
		if !c.resized(v, i, at, len(axes), dims) {
			return nil
		}
	}
	if mode, _ := c.text("mode", "nearest"); mode != "nearest" && v.kind == rows &&
		(!dims[0].equal(v.dims[0]) || !dims[1].equal(v.dims[1])) {
		return c.no("it interpolates along dimension 0 or 1 too")
	}
	return []*value{like(v, dims, v.axis)}
}

// samples tells whether entries of different rows are kept from being weighted against each other. Where an engine
// interpolates along a dimension whose size stays, it does so with a weight of zero, which makes NaN of a neighbour's
// infinity. Images of four or five dimensions it takes one by one, by channels.
func (c *call) samples(v *value) bool {
	mode, ok := c.text("mode", "nearest")
	if !ok {
		return false
	}
	smooth, ok := c.flag("antialias")
	if !ok {
		return false
	}
	if smooth || mode != "nearest" && (v.rank() < 4 || v.rank() > 5 || v.axis > 1 || mode == "cubic" && v.rank() != 4) {
		return c.bad("it interpolates between the entries of dimension %d, which holds the rows of %s", v.axis,
			c.name(0))
	}
	return true
}

// resized puts the size of one dimension into dims, whose parameters are the i-th of n.
func (c *call) resized(v *value, i, at, n int, dims []dim) bool {
	scales, sizes := 2, 3
	if c.version < 11 {
		scales, sizes = 1, -1
	}
	s := c.input(scales)
	if s != nil && len(s.floats) == n && n > 0 {
		switch {
		case s.floats[i] == 1:
			return true
		case v.holds(at):
			c.meets(0, "resizes")
			return false
		}
		dims[at] = c.fresh()
		return true
	}
	var want *dim
	if sizes >= 0 && c.input(sizes) != nil && c.input(sizes).elems != nil {
		list, ok := c.wanted(sizes)
		if !ok {
			return false
		}
		if len(list) == n {
			want = list[i]
		}
	}
	switch {
	case v.holds(at) && (want == nil || !want.equal(v.dims[at])):
		c.meets(0, "may resize")
		return false
	case v.holds(at):
	case want == nil:
		for j := 1; j < len(c.in); j++ {
			if c.in[j] != nil && c.in[j].kind == counts && c.in[j].elems == nil {
				return c.differs(j)
			}
		}
		dims[at] = c.fresh()
	case want.n:
		return c.bad("it resizes dimension %d by the number of rows", at)
	default:
		dims[at] = *want
	}
	return true
}

// gridSample takes of each image at the places that its grid says.
func gridSample(c *call) []*value {
	v, ok := c.data(0)
	if !ok {
		return nil
	}
	grid, ok := c.data(1)
	if !ok || !c.alike(v, grid) {
		return nil
	}
	if v.axis != 0 || v.rank() < 3 || grid.rank() != v.rank() {
		return c.no("its images and grids are not rows along dimension 0")
	}
	dims := slices.Concat(v.dims[:2], grid.dims[1:grid.rank()-1])
	return []*value{like(v, dims, 0)}
}
