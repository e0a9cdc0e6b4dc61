package structure

import (
	"cmp"
	"maps"
	"slices"

	"github.com/weftserve/weft/proto/gen/onnx"
)

// Operators that run graphs of their own, in which the same rules hold. Where rows are sure to meet in one of those, on
// the way to one of its results, they are sure to meet, whichever graph runs and however often: as behind Where, which
// may choose the other side.
var controlOperators = tableOf(
	each("", operator{apply: choose, counts: true, opaque: true, walks: true}, "If"),
	each("", operator{apply: loop, counts: true, opaque: true, walks: true}, "Loop"),
	each("", operator{apply: scan, counts: true, opaque: true, walks: true}, "Scan"),
)

// body reads an attribute that is a graph.
func (c *call) body(name string) *onnx.GraphProto {
	a := c.attrs[name]
	if a.GetType() != onnx.AttributeProto_GRAPH {
		c.no("its attribute %q is no graph", name)
	}
	return a.GetG()
}

// enter computes the outputs of a graph inside, given its inputs.
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
		outs = append(outs, v)
	}
	return outs
}

// spoiled are values that nothing is known about, because of why (nil: what is known of them stands).
func spoiled(values []*value, why *cause) []*value {
	if why == nil {
		return values
	}
	out := make([]*value, 0, len(values))
	for _, v := range values {
		out = append(out, &value{kind: mixed, why: v.why.or(why)})
	}
	return out
}

// doubt is why an input that the rule cannot follow lets nothing be known of the outputs; nil: it is the same for all
// rows. What else stands in the way is looked for anyway: rows may be sure to meet.
func (c *call) doubt(i int) *cause {
	v := c.input(i)
	switch {
	case v == nil || v.kind == shared:
		return nil
	case v.kind == mixed:
		return v.why
	}
	return c.reasonOf(func() { c.differs(i) })
}

// reasonOf is why f gives up; nil: it does not.
func (c *call) reasonOf(f func()) *cause {
	reason, mixes, refused := c.reason, c.mixes, c.refused
	defer func() { c.reason, c.mixes, c.refused = reason, mixes, refused }()
	c.reason, c.mixes, c.refused = "", false, false
	if c.attempt(f) {
		return nil
	}
	return &cause{operator: operatorName(c.node), reason: c.reason, mixes: c.mixes, refused: c.refused}
}

// function computes a function that the model brings along, as if its nodes stood in place of the call. ONNX Runtime
// runs them by the operator sets of the model, whatever the function says: nothing is known where that says otherwise.
func (c *call) function(f *onnx.FunctionProto) []*value {
	s, why := newScope(nil, c.p.opsets)
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
		s.set(name, cmp.Or(c.input(i), leftOut), "")
	}
	return spoiled(c.within(f.GetNode(), s, f.GetOutput()), c.reasonOf(func() { c.sameOpsets(f, s) }))
}

// sameOpsets demands that a function was written for the operator sets of the model.
func (c *call) sameOpsets(f *onnx.FunctionProto, s *scope) {
	for _, set := range f.GetOpsetImport() {
		domain := standard(set.GetDomain())
		ruled := domain == "" || domain == microsoft || domain == classic
		if ruled && set.GetVersion() != s.opsets[domain] && usesDomain(f.GetNode(), domain) {
			c.no("its function is written for version %d of the operator set %q, and runs as of version %d",
				set.GetVersion(), domain, s.opsets[domain])
		}
	}
}

// usesDomain reports whether an operator of a domain is among nodes, or in graphs within them.
func usesDomain(nodes []*onnx.NodeProto, domain string) bool {
	return slices.ContainsFunc(nodes, func(n *onnx.NodeProto) bool {
		return standard(n.GetDomain()) == domain || slices.ContainsFunc(n.GetAttribute(),
			func(a *onnx.AttributeProto) bool { return usesDomain(a.GetG().GetNode(), domain) })
	})
}

// choose computes both graphs, unless it is known which one runs.
func choose(c *call) []*value {
	cond := c.input(0)
	if cond == nil {
		return c.no("it lacks its condition")
	}
	if len(cond.elems) == 1 && cond.kind != rows {
		if n, fixed := cond.elems[0].fixed(); fixed {
			return c.branch(n != 0)
		}
	}
	then, otherwise := c.branch(true), c.branch(false)
	if len(then) != len(otherwise) {
		return c.no("its graphs do not have the same outputs")
	}
	// A graph that the engine refuses gives no answer: the other one counts.
	switch doubt := c.doubt(0); {
	case refused(then):
		return spoiled(otherwise, doubt)
	case refused(otherwise):
		return spoiled(then, doubt)
	default:
		return c.either(then, otherwise, doubt)
	}
}

// refused reports whether the engine is sure to refuse to compute these.
func refused(values []*value) bool {
	why := causeOf(values)
	return why != nil && why.refused
}

// either holds the known facts about values that one graph or the other computes; doubt is why which one does so may
// not be the same for all rows, if it may not.
func (c *call) either(then, otherwise []*value, doubt *cause) []*value {
	out := make([]*value, 0, len(then))
	for i := range then {
		var both *value
		why := causeOf([]*value{then[i], otherwise[i]}).or(doubt)
		if why == nil {
			why = c.reasonOf(func() { both = c.joined(then[i], otherwise[i]) })
			if side := c.decided(then, otherwise, why); side != nil {
				return side
			}
		}
		if why != nil {
			both = &value{kind: mixed, why: why}
		}
		out = append(out, both)
	}
	return out
}

// branch computes one of the graphs.
func (c *call) branch(then bool) []*value {
	name := "else_branch"
	if then {
		name = "then_branch"
	}
	return c.enter(c.body(name), nil)
}

// decided takes one side here if there is a reason (why) against describing both at once, and leaves the other to
// another proof of the whole graph: the condition is the same for all rows. In a loop it need not be the same for all
// turns.
func (c *call) decided(then, otherwise []*value, why *cause) []*value {
	if why == nil || c.p.loops > 0 {
		return nil
	}
	side, ok := c.p.decide()
	if !ok {
		return nil
	}
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
			if f := b.elems[i]; !sameElem(e, f) {
				elems[i] = unclear(e, f)
			}
		}
		out.withElems(elems)
	}
	return out
}
