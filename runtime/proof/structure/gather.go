package structure

import (
	"slices"

	"github.com/weftserve/weft/proto/gen/onnx"
)

// Operators that look elements up by their place.
var gatherOperators = tableOf(
	each("", operator{apply: gather, counts: true}, "Gather"),
	each("", operator{apply: gatherElements}, "GatherElements"),
	each("", operator{apply: gatherND}, "GatherND"),
	each("", operator{apply: scatterElements}, "ScatterElements"),
	each("", operator{apply: scatterND}, "ScatterND"),
	each("", operator{apply: oneHot}, "OneHot"),
	each("", operator{apply: compress}, "Compress"),
)

func gather(c *call) []*value {
	v := c.data(0)
	index := c.data(1)
	at := c.axis(0, v)
	dims := slices.Concat(v.dims[:at], index.dims, v.dims[at+1:])
	switch {
	case index.kind == counts:
		c.differs(1)
	case v.kind == rows && index.kind == rows:
		return c.no("it looks up the rows of %s at places that depend on the rows of %s", c.name(0), c.name(1))
	case v.holds(at):
		return c.meets(0, "picks entries of")
	case v.kind == counts && index.kind == rows:
		c.differs(0)
	case index.kind == rows:
		return []*value{like(index, dims, at+index.axis)}
	case v.kind == rows && v.axis > at:
		c.noTexts()
		return []*value{like(v, dims, v.axis-1+index.rank())}
	}
	out := like(v, dims, v.axis)
	if v.kind != rows && v.rank() == 1 && v.elems != nil && index.elems != nil {
		if elems := pick(v.elems, index.elems); elems != nil {
			out.withElems(elems)
		}
	}
	return []*value{out}
}

// noTexts demands that tensors hold numbers: where ONNX Runtime is to take several texts for one place, it takes the
// first and leaves the others empty.
func (c *call) noTexts() {
	if c.p.types.has(onnx.TensorProto_STRING) {
		c.no("of texts it may not take all, and which ones depends on where a row lies")
	}
}

// pick returns the elements at the given places; nil: a place is not known.
func pick(elems, places []elem) []elem {
	picked := make([]elem, 0, len(places))
	for _, place := range places {
		at, fixed := place.fixed()
		if at < 0 {
			at += int64(len(elems))
		}
		if !fixed || at < 0 || at >= int64(len(elems)) {
			return nil
		}
		picked = append(picked, elems[at])
	}
	return picked
}

// gatherElements looks up, for each entry of the indices, the entry of the data that differs from it along one axis.
func gatherElements(c *call) []*value {
	v := c.data(0)
	index := c.data(1)
	at := c.axis(0, v)
	switch {
	case index.kind != rows && v.kind != rows:
		return []*value{sharedOf(index.dims)}
	case v.holds(at):
		return c.meets(0, "picks entries of")
	case index.kind == rows && v.kind != rows && index.axis == at:
		return same(index)
	}
	c.alike(v, index)
	return same(index)
}

// alike demands that two tensors have their rows in the same way along the same dimension.
func (c *call) alike(v, w *value) {
	if v.kind != rows || w.kind != rows || v.axis != w.axis || !v.dealtAs(w) {
		c.no("%s and %s do not both have their rows along the same dimension", c.nameOf(v), c.nameOf(w))
	}
}

func gatherND(c *call) []*value {
	v := c.data(0)
	index := c.data(1)
	b := c.integer("batch_dims", 0)
	if index.rank() == 0 || b < 0 || b >= int64(min(v.rank(), index.rank())) {
		return c.no("its batch_dims do not fit")
	}
	last := index.rank() - 1
	depth, fixed := index.dims[last].fixed()
	if !fixed || b+depth > int64(v.rank()) {
		return c.no("how many dimensions it looks into is not known")
	}
	batch, end := int(b), int(b+depth)
	// ONNX Runtime does not compare them, and divides all places by what the data have.
	if !slices.EqualFunc(v.dims[:batch], index.dims[:batch], dim.equal) {
		return c.no("%s and %s do not have the same batch dimensions", c.name(0), c.name(1))
	}
	dims := slices.Concat(index.dims[:last], v.dims[end:])
	switch {
	case index.holds(last):
		return c.meets(1, "takes for one place")
	case v.kind == rows && v.axis < batch:
		c.alike(v, index)
		return []*value{like(v, dims, v.axis)}
	case v.kind == rows && index.kind == rows:
		return c.no("it looks up the rows of %s at places that depend on the rows of %s", c.name(0), c.name(1))
	case v.kind == rows && v.axis < end:
		return c.meets(0, "picks entries of")
	case v.kind == rows:
		return []*value{like(v, dims, last+v.axis-end)}
	case index.kind == rows && index.axis < batch:
		return c.no("%s has, or may have, an entry for each row by its place", c.name(0))
	}
	return []*value{like(index, dims, index.axis)}
}

// scatterElements replaces entries at places that differ from those of the updates along one axis.
func scatterElements(c *call) []*value {
	v := c.data(0)
	at := c.axis(0, v)
	for i := 1; i <= 2; i++ {
		if w := c.data(i); v.kind == rows || w.kind == rows {
			c.alike(v, w)
		}
	}
	if v.holds(at) {
		return c.meets(0, "writes by place along")
	}
	return same(v)
}

// scatterND replaces slices at places that are the same for all rows.
func scatterND(c *call) []*value {
	v := c.data(0)
	index := c.data(1)
	updates := c.data(2)
	if index.kind != shared {
		c.differs(1)
	}
	if v.kind != rows && updates.kind != rows {
		return same(v)
	}
	if index.rank() == 0 {
		return c.no("how many dimensions it looks into is not known")
	}
	last := index.rank() - 1
	depth, fixed := index.dims[last].fixed()
	switch {
	case !fixed:
		return c.no("how many dimensions it looks into is not known")
	case v.kind == rows && int64(v.axis) < depth:
		return c.meets(0, "writes by place along")
	case v.kind != rows || updates.kind != rows || updates.axis != last+v.axis-int(depth) || !v.dealtAs(updates):
		return c.no("%s and %s do not both have their rows along the same dimension", c.name(0), c.name(2))
	}
	return same(v)
}

func oneHot(c *call) []*value {
	index := c.data(0)
	c.uniform(1)
	at := c.place(c.integer("axis", -1), index.rank()+1)
	return []*value{index.added(at, c.count(1))}
}

// compress keeps the entries along an axis that a condition chooses.
func compress(c *call) []*value {
	v := c.data(0)
	c.uniform(1)
	if c.attrs["axis"] == nil {
		return c.no("it takes elements out of all rows together")
	}
	at := c.axis(0, v)
	if v.holds(at) {
		return c.meets(0, "picks entries of")
	}
	return []*value{v.with(at, c.fresh())}
}
