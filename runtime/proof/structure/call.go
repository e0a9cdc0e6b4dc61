package structure

import (
	"fmt"

	"github.com/weftserve/weft/proto/gen/onnx"
)

// call is one node with what is known of its inputs, as a rule sees it.
type call struct {
	p       *prover
	scope   *scope
	node    *onnx.NodeProto
	version int64    // of the operator set that the node's domain has in this model
	in      []*value // nil: left out; none is mixed
	attrs   map[string]*onnx.AttributeProto
	reason  string // why the rule gave nothing
	mixes   bool   // the reason is that what a row holds reaches another
	why     *cause // the same where it is not for the node itself, but for one inside it
	refused bool   // the reason is one for the engine to refuse the node
}

// A rule returns what an operator makes of its inputs, an entry for each output that it knows; or it says why it cannot
// with call.no.
type rule func(c *call) []*value

// no gives up, with the reason as one clause about the operator ("it ...") unless another was given before.
func (c *call) no(format string, args ...any) []*value {
	if c.reason == "" {
		c.reason = fmt.Sprintf(format, args...)
	}
	return nil
}

// mixed is no where what a row holds is sure to reach another, rather than not known not to.
func (c *call) mixed(format string, args ...any) []*value {
	c.mixes = c.mixes || c.reason == ""
	return c.no(format, args...)
}

// bad is no for functions that return whether they could.
func (c *call) bad(format string, args ...any) bool {
	c.no(format, args...)
	return false
}

// refuse is no for what the engine is sure to refuse as well, for shapes that are the same for all rows.
func (c *call) refuse(format string, args ...any) []*value {
	c.refused = true
	return c.no(format, args...)
}

// input returns an input; nil: it is left out.
func (c *call) input(i int) *value {
	if i < len(c.in) {
		return c.in[i]
	}
	return nil
}

// name is an input's name, quoted.
func (c *call) name(i int) string { return fmt.Sprintf("%q", c.node.GetInput()[i]) }

// data returns an input that must be there and whose rank must be known.
func (c *call) data(i int) (*value, bool) {
	v := c.input(i)
	if v == nil {
		return nil, c.bad("it lacks its input %d", i)
	}
	if !v.ranked {
		return nil, c.bad("how many dimensions %s has is not known", c.name(i))
	}
	return v, true
}

// uniform demands that the inputs from the given one on are the same for all rows.
func (c *call) uniform(from int) bool {
	for i := from; i < len(c.in); i++ {
		if v := c.in[i]; v != nil && v.kind != shared {
			return c.differs(i)
		}
	}
	return true
}

// differs gives up because of an input that must be the same for all rows.
func (c *call) differs(i int) bool {
	if c.in[i].kind == counts {
		return c.bad("it computes with %s, which depends on how many rows there are", c.name(i))
	}
	return c.bad("%s, which must be the same for all rows, depends on them", c.name(i))
}

// outputs tells whether the node has an output beyond the first so many.
func (c *call) outputs(beyond int) bool {
	for i, name := range c.node.GetOutput() {
		if i >= beyond && name != "" {
			return true
		}
	}
	return false
}

// like is a tensor of these dimensions, with the rows of v along axis if v has rows.
func like(v *value, dims []dim, axis int) *value {
	out := &value{kind: v.kind, ranked: true, dims: dims, own: v.own}
	if v.kind == rows {
		out.axis, out.outer, out.inner = axis, v.outer, v.inner
	}
	return out
}

// holds tells whether a dimension is the one of the rows.
func (v *value) holds(axis int) bool { return v.kind == rows && v.axis == axis }

// integer reads an attribute.
func (c *call) integer(name string, otherwise int64) (int64, bool) {
	a := c.attrs[name]
	if a == nil {
		return otherwise, true
	}
	if a.GetType() != onnx.AttributeProto_INT {
		return 0, c.bad("its attribute %q is no integer", name)
	}
	return a.GetI(), true
}

// flag reads an attribute that is a flag.
func (c *call) flag(name string) (set, ok bool) {
	n, ok := c.integer(name, 0)
	return n != 0, ok
}

// integers reads an attribute that is a list; nil: the node does not have it.
func (c *call) integers(name string) ([]int64, bool) {
	a := c.attrs[name]
	if a == nil {
		return nil, true
	}
	if a.GetType() != onnx.AttributeProto_INTS {
		return nil, c.bad("its attribute %q is no list of integers", name)
	}
	return append([]int64{}, a.GetInts()...), true
}

// text reads an attribute.
func (c *call) text(name, otherwise string) (string, bool) {
	a := c.attrs[name]
	if a == nil {
		return otherwise, true
	}
	if a.GetType() != onnx.AttributeProto_STRING {
		return "", c.bad("its attribute %q is no string", name)
	}
	return string(a.GetS()), true
}

// constants returns the elements of an input that must be known numbers; nil: the input is left out.
func (c *call) constants(i int) ([]int64, bool) {
	v := c.input(i)
	if v == nil {
		return nil, true
	}
	if v.kind == rows {
		return nil, c.differs(i)
	}
	if v.elems == nil {
		return nil, c.bad("what %s holds is not known before it runs", c.name(i))
	}
	list := make([]int64, 0, len(v.elems))
	for _, e := range v.elems {
		n, ok := e.fixed()
		if !ok {
			return nil, c.bad("what %s holds is not known before it runs", c.name(i))
		}
		list = append(list, n)
	}
	return list, true
}

// axes reads a list of axes that was an attribute and became an input with the operator set since; nil: there is none.
func (c *call) axes(since int64, input int) ([]int64, bool) {
	if c.version < since {
		return c.integers("axes")
	}
	return c.constants(input)
}

// place makes an axis, which may count from the end, a position in so many dimensions.
func (c *call) place(axis int64, rank int) (int, bool) {
	if axis < 0 {
		axis += int64(rank)
	}
	if axis < 0 || axis >= int64(rank) {
		return 0, c.bad("its axis does not fit %d dimensions", rank)
	}
	return int(axis), true
}

// axis reads the attribute "axis" as a position in the dimensions of v.
func (c *call) axis(otherwise int64, v *value) (int, bool) {
	n, ok := c.integer("axis", otherwise)
	if !ok {
		return 0, false
	}
	return c.place(n, v.rank())
}

// meets gives up because the operator may let the rows of input i meet along an axis; doing is what it does there.
func (c *call) meets(i int, doing string) []*value {
	return c.no("it %s dimension %d, which holds the rows of %s", doing, c.in[i].axis, c.name(i))
}

// mingles is meets of what computes with all entries of the axis of its first input: there rows are sure to meet.
func (c *call) mingles(doing string) []*value {
	return c.mixed("it %s dimension %d, which holds the rows of %s", doing, c.in[0].axis, c.name(0))
}

// fresh is a size that is not known.
func (c *call) fresh() dim { return c.p.fresh() }
