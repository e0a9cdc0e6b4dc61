package structure

import (
	"maps"
	"slices"

	"github.com/weftserve/weft/proto/gen/onnx"
)

// Operators that run graphs of their own, in which the same rules hold.
var controlOperators = tableOf(
	each("", operator{apply: choose, counts: true, opaque: true}, "If"),
	each("", operator{apply: loop, counts: true, opaque: true}, "Loop"),
	each("", operator{apply: scan, counts: true, opaque: true}, "Scan"),
)

// body reads an attribute that is a graph.
func (c *call) body(name string) *onnx.GraphProto {
	a := c.attrs[name]
	if a.GetType() != onnx.AttributeProto_GRAPH {
		c.no("its attribute %q is no graph", name)
	}
	return a.GetG()
}

// enter computes the outputs of a graph inside, given its inputs. It gives up if an output is mixed.
func (c *call) enter(g *onnx.GraphProto, inputs []*value) []*value {
	s, why := newScope(c.scope, nil)
	if why == nil && len(inputs) != len(g.GetInput()) {
		c.no("its graph takes %d inputs and gets %d", len(g.GetInput()), len(inputs))
	}
	for i, in := range g.GetInput() {
		s.set(in.GetName(), inputs[i], "")
	}
	if why == nil {
		why = c.p.constants(g, s)
	}
	if why != nil {
		c.because(why)
	}
	names := make([]string, 0, len(g.GetOutput()))
	for _, out := range g.GetOutput() {
		names = append(names, out.GetName())
	}
	return c.within(g.GetNode(), s, names)
}

// within computes nodes in a scope of their own, and returns their values of these names.
func (c *call) within(nodes []*onnx.NodeProto, s *scope, names []string) []*value {
	if c.p.depth++; c.p.depth > maxDepth {
		c.no("it is more than %d graphs deep", maxDepth)
	}
	defer func() { c.p.depth-- }()
	c.p.nodes(nodes, s)
	outs := make([]*value, 0, len(names))
	for _, name := range names {
		v := s.find(name)
		if v == nil {
			c.no("nothing in its graph computes %q", name)
		}
		if v.kind == mixed {
			// Which of the outputs is used, and whether this graph runs at all, is not looked at: rows are not sure to
			// meet.
			c.because(&cause{operator: v.why.operator, reason: v.why.reason, refused: v.why.refused})
		}
		outs = append(outs, v)
	}
	return outs
}

// function computes a function that the model brings along, as if its nodes stood in place of the call.
func (c *call) function(f *onnx.FunctionProto) []*value {
	s, why := newScope(nil, f.GetOpsetImport())
	if why != nil {
		c.because(why)
	}
	s.attrs = map[string]*onnx.AttributeProto{}
	for _, a := range f.GetAttributeProto() {
		s.attrs[a.GetName()] = a
	}
	maps.Copy(s.attrs, c.attrs)
	if len(c.in) > len(f.GetInput()) {
		return c.no("its function takes %d inputs and gets %d", len(f.GetInput()), len(c.in))
	}
	for i, name := range f.GetInput() {
		if c.input(i) == nil {
			return c.no("there is no rule for a function whose input %d is left out", i)
		}
		s.set(name, c.in[i], "")
	}
	return c.within(f.GetNode(), s, f.GetOutput())
}

// choose computes both graphs, unless it is known which one runs.
func choose(c *call) []*value {
	cond := c.input(0)
	switch {
	case cond == nil:
		return c.no("it lacks its condition")
	case cond.kind == rows:
		c.differs(0)
	}
	if len(cond.elems) == 1 {
		if n, fixed := cond.elems[0].fixed(); fixed {
			return c.branch(n != 0)
		}
	}
	if cond.kind == counts {
		c.differs(0)
	}
	var then, otherwise []*value
	if !c.attempt(func() { then = c.branch(true) }) {
		if !c.passed() {
			return nil
		}
		c.why = nil
		return c.branch(false)
	}
	if !c.attempt(func() { otherwise = c.branch(false) }) {
		if !c.passed() {
			return nil
		}
		c.why = nil
		return then
	}
	if len(then) != len(otherwise) {
		return c.no("its graphs do not have the same outputs")
	}
	out := make([]*value, 0, len(then))
	for i := range then {
		if !c.attempt(func() { out = append(out, c.joined(then[i], otherwise[i])) }) {
			return c.decided(then, otherwise)
		}
	}
	return out
}

// passed reports whether a graph gave nothing because the engine refuses it, in which case the other one counts.
func (c *call) passed() bool { return c.why != nil && c.why.refused }

// branch computes one of the graphs.
func (c *call) branch(then bool) []*value {
	name := "else_branch"
	if then {
		name = "then_branch"
	}
	return c.enter(c.body(name), nil)
}

// decided takes one side here, and leaves the other to another proof of the whole graph: the condition is the same for
// all rows. In a loop it need not be the same for all turns.
func (c *call) decided(then, otherwise []*value) []*value {
	if c.p.loops > 0 {
		return nil
	}
	side, ok := c.p.decide()
	if !ok {
		return nil
	}
	c.reason = ""
	if side {
		return then
	}
	return otherwise
}

// joined holds the known facts about a value that is one of two.
func (c *call) joined(a, b *value) *value {
	if !a.laidOutAs(b) {
		c.no("which rows its output has depends on its condition")
	}
	out := like(a, nil, a.axis)
	out.kind, out.ranked, out.own = max(a.kind, b.kind), a.ranked && b.ranked && a.rank() == b.rank(), a.own || b.own
	if !out.ranked {
		if out.kind != shared {
			c.no("how many dimensions its output has is not known")
		}
		return out
	}
	for i, d := range a.dims {
		if !d.equal(b.dims[i]) {
			d = c.fresh()
		}
		out.dims = append(out.dims, d)
	}
	if a.elems != nil && len(a.elems) == len(b.elems) && slices.EqualFunc(a.dims, b.dims, dim.equal) &&
		out.kind != rows {
		elems := slices.Clone(a.elems)
		for i, e := range elems {
			if f := b.elems[i]; !e.known || !f.known || !e.equal(f.dim) {
				elems[i] = unclear(e, f)
			}
		}
		out.withElems(elems)
	}
	return out
}
