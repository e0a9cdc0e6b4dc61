package structure

import (
	"slices"

	"github.com/weftserve/weft/proto/gen/onnx"
)

// Operators that shapes are computed with, and that make tensors of computed shapes.
var sizeOperators = tableOf(
	each("", operator{apply: constantNode}, "Constant"),
	each("", operator{apply: shapeOf, counts: true}, "Shape"),
	each("", operator{apply: sizeOf, counts: true}, "Size"),
	each("", operator{apply: constantOfShape, counts: true}, "ConstantOfShape"),
	each("", operator{apply: expand, counts: true}, "Expand"),
	each("", operator{apply: tile, counts: true}, "Tile"),
	each("", operator{apply: rangeOf}, "Range"),
)

func constantNode(c *call) []*value {
	for name, a := range c.attrs {
		switch name {
		case "value":
			if a.GetType() != onnx.AttributeProto_TENSOR {
				return c.no("its attribute %q is no tensor", name)
			}
			return []*value{constant(a.GetT())}
		case "value_int":
			return []*value{sharedOf(nil).withElems([]elem{number(c.integer(name, 0))})}
		case "value_ints":
			return []*value{vector(numbers(c.integers(name)))}
		case "value_float", "value_string":
			return []*value{sharedOf(nil)}
		default: // one dimension or a shape that is not known: the same for all rows
		}
	}
	return nil
}

func numbers(list []int64) []elem {
	elems := make([]elem, 0, len(list))
	for _, n := range list {
		elems = append(elems, number(n))
	}
	return elems
}

// vector is a tensor of one dimension with these elements.
func vector(elems []elem) *value {
	return sharedOf([]dim{size(int64(len(elems)))}).withElems(elems)
}

func shapeOf(c *call) []*value {
	v := c.data(0)
	start := c.integer("start", 0)
	end := c.integer("end", int64(v.rank()))
	from, to := clamp(start, v.rank()), clamp(end, v.rank())
	if c.version < 15 {
		from, to = 0, v.rank()
	}
	elems := []elem{}
	for at := from; at < to; at++ {
		elems = append(elems, elem{dim: v.dims[at], known: true})
	}
	return []*value{vector(elems)}
}

// clamp is the bound of a slice, which may count from the end, within so many entries.
func clamp(at int64, n int) int {
	if at < 0 {
		at += int64(n)
	}
	return int(min(max(at, 0), int64(n)))
}

func sizeOf(c *call) []*value {
	v := c.data(0)
	e := elem{rough: v.kind != shared}
	if d, ok := product(v.dims); ok {
		e = elem{dim: d, known: true}
	}
	return []*value{sharedOf(nil).withElems([]elem{e})}
}

// wanted returns the elements of an input that is a shape: each is a dimension, or not known but the same for all rows
// (nil).
func (c *call) wanted(i int) []*dim {
	v := c.followed(i)
	list := make([]*dim, 0, len(v.elems))
	for _, e := range v.elems {
		switch d, ok := e.size(); {
		case ok:
			list = append(list, &d)
		case e.dependsOnCount() || e.exact():
			c.no("it makes a dimension of %s that is no multiple of the number of rows", c.name(i))
		default:
			list = append(list, nil)
		}
	}
	return list
}

// filled is a tensor of one repeated element: its slices are equal however they are dealt out to the rows.
func (c *call) filled(shape []*dim) *value {
	out := sharedOf(nil)
	for at, want := range shape {
		d := c.p.fresh()
		if want != nil {
			d = *want
		}
		if d.n {
			if out.kind == rows {
				c.no("it makes a tensor with the number of rows in two dimensions")
			}
			out.kind, out.axis, out.outer, out.inner = rows, at, one, d.without()
		}
		out.dims = append(out.dims, d)
	}
	return out
}

func constantOfShape(c *call) []*value {
	out := c.filled(c.wanted(0))
	if p, ok := product(out.dims); ok && out.kind != rows {
		// Of floats, which are zeros if it has none, the elements are not followed.
		fill := constant(c.attrs["value"].GetT()).elems
		if n, fixed := p.fixed(); fixed && n <= maxElems && len(fill) == 1 {
			out.withElems(slices.Repeat(fill, int(n)))
		}
	}
	return []*value{out}
}

// expand broadcasts a tensor with a shape.
func expand(c *call) []*value {
	v := c.content()
	shape := c.wanted(1)
	rank := max(v.rank(), len(shape))
	c.expandable(v, shape, rank)
	out := like(v, nil, v.axis+rank-v.rank())
	for at := range rank {
		have, want := one, &one
		if i := at - rank + v.rank(); i >= 0 {
			have = v.dims[i]
		}
		if i := at - rank + len(shape); i >= 0 {
			want = shape[i]
		}
		d := have
		switch {
		case out.kind == rows && v.kind == rows && at == out.axis: // as it is
		case want == nil:
			d = c.fresh()
		case want.n:
			// The one entry there is repeated for each row.
			out.kind, out.axis, out.outer, out.inner = rows, at, one, want.without()
			d = *want
		default:
			d = c.common(have, *want)
		}
		out.dims = append(out.dims, d)
	}
	return []*value{out}
}

// expandable demands that a shape leaves rows alone, and makes one dimension of them at most.
func (c *call) expandable(v *value, shape []*dim, rank int) {
	made := false
	for i, want := range shape {
		at := i + rank - len(shape)
		own := at - rank + v.rank()
		switch {
		case v.holds(own) && own >= 0:
			if want == nil || !want.is(1) && !want.equal(v.dims[own]) {
				c.no("it may repeat dimension %d, which holds the rows of %s", own, c.name(0))
			}
		case want == nil || !want.n:
		case v.kind == rows || made:
			c.no("it makes a tensor with the number of rows in two dimensions")
		case own >= 0 && !v.dims[own].is(1):
			c.no("%s has, or may have, an entry for each row by its place", c.name(0))
		default:
			made = true
		}
	}
}

func tile(c *call) []*value {
	v := c.content()
	repeats := c.wanted(1)
	if len(repeats) != v.rank() {
		return c.no("it has %d repeats for %d dimensions", len(repeats), v.rank())
	}
	out := like(v, nil, v.axis)
	for at, r := range repeats {
		d := c.fresh()
		switch {
		case v.holds(at):
			if r == nil || !r.is(1) {
				return c.meets(0, "repeats")
			}
			d = v.dims[at]
		case r == nil:
		case r.n:
			// Whole copies for each row.
			if out.kind == rows {
				return c.no("it makes a tensor with the number of rows in two dimensions")
			}
			var ok bool
			if d, ok = r.times(v.dims[at]); !ok {
				return c.no("its output is too large to follow")
			}
			out.kind, out.axis, out.outer, out.inner = rows, at, one, d.without()
		default:
			if p, ok := r.times(v.dims[at]); ok {
				d = p
			}
		}
		out.dims = append(out.dims, d)
	}
	return []*value{out}
}

func rangeOf(c *call) []*value {
	c.uniform(0)
	if len(c.in) != 3 || slices.Contains(c.in, nil) {
		return nil
	}
	n := c.fresh()
	start, delta, limit := c.in[0].elems, c.in[2].elems, c.in[1].elems
	if len(start) == 1 && len(delta) == 1 && len(limit) == 1 && start[0].known && start[0].is(0) && delta[0].known &&
		delta[0].is(1) {
		if d, ok := limit[0].size(); ok {
			n = d
		}
	}
	return []*value{sharedOf([]dim{n})}
}
