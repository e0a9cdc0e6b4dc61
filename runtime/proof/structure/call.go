package structure

import (
	"fmt"
	"slices"

	"github.com/weftserve/weft/proto/gen/onnx"
)

// call is one node with the known facts about its inputs, as a rule sees it.
type call struct {
	p       *prover
	scope   *scope
	node    *onnx.NodeProto
	version int64    // of the operator set that the node's domain has in this model
	in      []*value // nil: left out; none is mixed
	attrs   map[string]*onnx.AttributeProto
	reason  string // why the rule gave nothing
	mixes   bool   // the reason is that values of a row reach another
	why     *cause // the same where it is not for the node itself, but for one inside it
	refused bool   // the reason is one for the engine to refuse the node
}

// A rule returns an operator's outputs for its inputs, an entry for each output that it knows; nil: there is no rule
// for this use of it. Where something is not as the rule demands it gives up, by call.no or another function that says
// why, and the code that follows may rely on it.
type rule func(c *call) []*value

// gaveUp is the value that call.no panics with and call.attempt recovers. A rule is a list of demands, most of them
// made by functions that several rules share; if giving up were a result, each demand would take four lines.
type gaveUp struct{}

// attempt runs f and reports whether it came to its end, rather than gave up. Any other panic goes on.
func (c *call) attempt(f func()) (ok bool) {
	defer func() {
		if r := recover(); r != nil && r != (gaveUp{}) {
			panic(r)
		}
	}()
	f()
	return true
}

// no gives up, with the reason as one clause about the operator ("it ...") unless another was given before. It never
// returns: it panics, and the attempt around the rule ends. It has a result so that a rule may return it.
func (c *call) no(format string, args ...any) []*value {
	if c.reason == "" {
		c.reason = fmt.Sprintf(format, args...)
	}
	panic(gaveUp{})
}

// mixed is no where values of a row are sure to reach another, rather than not known not to.
func (c *call) mixed(format string, args ...any) []*value {
	c.mixes = c.mixes || c.reason == ""
	return c.no(format, args...)
}

// refuse is no for a node that the engine is sure to refuse as well, for shapes that are the same for all rows.
func (c *call) refuse(reason string) []*value {
	c.refused = true
	return c.no("%s", reason)
}

// cause is a reason of this node why nothing is known of an output.
func (c *call) cause(reason string) *cause {
	return &cause{operator: operatorName(c.node), reason: reason}
}

// because is no where the reason is not of the node itself, but of one inside it. It never returns: it panics as no
// does.
func (c *call) because(why *cause) {
	c.why = why
	panic(gaveUp{})
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

// given returns an input that must be there.
func (c *call) given(i int) *value {
	v := c.input(i)
	if v == nil {
		c.no("it lacks its input %d", i)
	}
	return v
}

// data returns an input that must be there and whose rank must be known.
func (c *call) data(i int) *value {
	v := c.given(i)
	if !v.ranked {
		c.no("how many dimensions %s has is not known", c.name(i))
	}
	return v
}

// content is the first input, whose elements are not how many rows there are.
func (c *call) content() *value {
	v := c.data(0)
	if v.kind == counts {
		c.differs(0)
	}
	return v
}

// uniform demands that the inputs from the given one on are the same for all rows.
func (c *call) uniform(from int) {
	for i := from; i < len(c.in); i++ {
		if v := c.in[i]; v != nil && v.kind != shared {
			c.differs(i)
		}
	}
}

// rowless demands that the inputs from the given one on have no rows.
func (c *call) rowless(from int) {
	for i := from; i < len(c.in); i++ {
		if v := c.in[i]; v != nil && v.kind == rows {
			c.differs(i)
		}
	}
}

// differs gives up because of an input that must be the same for all rows.
func (c *call) differs(i int) {
	if c.in[i].kind == counts {
		c.no("it computes with %s, which depends on how many rows there are", c.name(i))
	}
	c.no("%s, which must be the same for all rows, depends on them", c.name(i))
}

// outputs reports whether the node has an output beyond the first so many.
func (c *call) outputs(beyond int) bool {
	names := c.node.GetOutput()
	return slices.ContainsFunc(names[min(beyond, len(names)):], func(name string) bool { return name != "" })
}

// followed returns an input that must be the same for all rows, as far as it does not depend on how many there are, and
// whose elements are known one by one.
func (c *call) followed(i int) *value {
	v := c.given(i)
	if v.kind == rows {
		c.differs(i)
	}
	if v.elems == nil {
		c.unknown(i)
	}
	return v
}

// constants returns the elements of an input that must be known numbers; nil: the input is left out.
func (c *call) constants(i int) []int64 {
	if c.input(i) == nil {
		return nil
	}
	elems := c.followed(i).elems
	list := make([]int64, 0, len(elems))
	for _, e := range elems {
		n, ok := e.fixed()
		if !ok {
			c.unknown(i)
		}
		list = append(list, n)
	}
	return list
}

// count is the size that an input of one element says; it is a new symbol where that is not known.
func (c *call) count(i int) dim {
	d := c.fresh()
	if v := c.input(i); v != nil && len(v.elems) == 1 {
		if n, ok := v.elems[0].size(); ok {
			d = n
		}
	}
	return d
}

// unknown gives up because of an input whose elements decide.
func (c *call) unknown(i int) { c.no("what %s holds is not known before it runs", c.name(i)) }

// axes reads a list of axes that was an attribute and became an input with the operator set since; nil: there is none.
func (c *call) axes(since int64, input int) []int64 {
	if c.version < since {
		return c.integers("axes")
	}
	return c.constants(input)
}

// place makes an axis, which may count from the end, a position in so many dimensions.
func (c *call) place(axis int64, rank int) int {
	if axis < 0 {
		axis += int64(rank)
	}
	if axis < 0 || axis >= int64(rank) {
		c.no("its axis does not fit %d dimensions", rank)
	}
	return int(axis)
}

// marked says of each of so many dimensions whether it is among the axes.
func (c *call) marked(axes []int64, rank int) []bool {
	marks := make([]bool, rank)
	for _, a := range axes {
		marks[c.place(a, rank)] = true
	}
	return marks
}

// distinct is marked of axes that must not name a dimension twice.
func (c *call) distinct(axes []int64, rank int) []bool {
	marks := make([]bool, rank)
	for _, a := range axes {
		at := c.place(a, rank)
		if marks[at] {
			c.no("its axes name a dimension twice")
		}
		marks[at] = true
	}
	return marks
}

// upTo is the axes of so many dimensions.
func upTo(rank int) []int64 {
	axes := make([]int64, rank)
	for at := range axes {
		axes[at] = int64(at)
	}
	return axes
}

// axis reads the attribute "axis" as a position in the dimensions of v.
func (c *call) axis(otherwise int64, v *value) int {
	return c.place(c.integer("axis", otherwise), v.rank())
}

// meets gives up because the operator may let the rows of input i meet along an axis; doing words its operation there.
func (c *call) meets(i int, doing string) []*value {
	return c.no("it %s dimension %d, which holds the rows of %s", doing, c.in[i].axis, c.name(i))
}

// mingles is meets for an operator that computes with all entries of the axis of its first input: there rows are sure
// to meet.
func (c *call) mingles(doing string) []*value {
	return c.mixed("it %s dimension %d, which holds the rows of %s", doing, c.in[0].axis, c.name(0))
}

// fresh is a size that is not known.
func (c *call) fresh() dim { return c.p.fresh() }
