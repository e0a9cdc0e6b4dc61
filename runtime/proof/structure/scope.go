package structure

import (
	"fmt"
	"slices"

	"github.com/weftserve/weft/proto/gen/onnx"
)

// scope holds the values that the nodes of one graph see.
type scope struct {
	outer  *scope // of the node that the graph belongs to; nil: a model's graph, or a function
	values map[string]*value
	makers map[string]string               // the operator that made a value, as Verdict.Operator has it
	opsets map[string]int64                // by domain; "" is the standard
	attrs  map[string]*onnx.AttributeProto // of the call of a function; nil: no function
}

// The operator sets that the rules were written for. Older ones broadcast by other rules, newer ones may change the
// meaning of an operator.
const (
	oldestOpset = 7
	newestOpset = 26
)

// standard is the domain of the operators that ONNX itself defines.
func standard(domain string) string {
	if domain == "ai.onnx" {
		return ""
	}
	return domain
}

func newScope(outer *scope, opsets []*onnx.OperatorSetIdProto) (*scope, *cause) {
	s := &scope{outer: outer, values: map[string]*value{}, makers: map[string]string{}}
	if outer != nil {
		s.opsets, s.attrs = outer.opsets, outer.attrs
		return s, nil
	}
	s.opsets = map[string]int64{}
	for _, set := range opsets {
		domain := standard(set.GetDomain())
		if old, twice := s.opsets[domain]; twice && old != set.GetVersion() {
			return nil, &cause{reason: fmt.Sprintf("operator set %q is imported in two versions", domain)}
		}
		s.opsets[domain] = set.GetVersion()
	}
	if v, ok := s.opsets[""]; ok && (v < oldestOpset || v > newestOpset) {
		return nil, &cause{reason: fmt.Sprintf("there are rules for operator sets %d to %d, and this is %d",
			oldestOpset, newestOpset, v)}
	}
	return s, nil
}

func (s *scope) set(name string, v *value, maker string) {
	if name != "" {
		s.values[name], s.makers[name] = v, maker
	}
}

// find returns the value of that name, of this graph or of one around it; nil: there is none.
func (s *scope) find(name string) *value {
	for ; s != nil; s = s.outer {
		if v := s.values[name]; v != nil {
			return v
		}
	}
	return nil
}

// constants adds the weights of a graph to its values.
func (p *prover) constants(g *onnx.GraphProto, s *scope) *cause {
	for _, t := range g.GetInitializer() {
		if s.values[t.GetName()] != nil {
			return &cause{reason: fmt.Sprintf("there are two tensors %q", t.GetName())}
		}
		s.set(t.GetName(), constant(t), "")
	}
	for _, t := range g.GetSparseInitializer() {
		name := t.GetValues().GetName()
		if s.values[name] != nil {
			return &cause{reason: fmt.Sprintf("there are two tensors %q", name)}
		}
		s.set(name, &value{}, "")
	}
	return nil
}

// nodes computes the known facts about the values that the nodes make, in the order of the file, which ONNX demands to
// be one of computation.
func (p *prover) nodes(nodes []*onnx.NodeProto, s *scope) {
	for _, n := range nodes {
		maker := operatorName(n)
		made, reason := p.node(n, s)
		for i, name := range n.GetOutput() {
			var v *value
			switch {
			case reason != nil:
				v = &value{kind: mixed, why: reason}
			case i < len(made) && made[i] != nil:
				v = made[i]
			default:
				v = mixedBy(maker, "there is no rule for its output %d", i)
			}
			if s.values[name] != nil {
				v = mixedBy(maker, "there are two tensors %q", name)
			}
			s.set(name, v, maker)
		}
	}
}

func operatorName(n *onnx.NodeProto) string {
	name := n.GetOpType()
	if d := standard(n.GetDomain()); d != "" {
		name = d + "." + name
	}
	return fmt.Sprintf("%s %q", name, n.GetName())
}

// leftOut is an input that the call of a function leaves out, as the function sees it.
var leftOut = &value{}

// causeOf is why nothing is known of some of these values; nil: of each of them something is.
func causeOf(values []*value) *cause {
	var why *cause
	for _, v := range values {
		if v != nil {
			why = v.why.or(why)
		}
	}
	return why
}

// node applies the rule of one node. The cause is why there is nothing to say of its outputs.
func (p *prover) node(n *onnx.NodeProto, s *scope) ([]*value, *cause) {
	maker := operatorName(n)
	if p.steps++; p.steps > maxSteps {
		return nil, &cause{operator: maker, reason: fmt.Sprintf("the proof was given up after %d steps", maxSteps)}
	}
	c := &call{
		p: p, scope: s, node: n, version: s.opsets[standard(n.GetDomain())],
		attrs: map[string]*onnx.AttributeProto{},
	}
	for _, name := range n.GetInput() {
		var v *value
		if name != "" {
			if v = s.find(name); v == nil {
				return nil, &cause{operator: maker, reason: fmt.Sprintf("nothing computes its input %q", name)}
			}
			if v == leftOut {
				v = nil
			}
		}
		c.in = append(c.in, v)
	}
	for _, a := range n.GetAttribute() {
		if c.attrs[a.GetName()] != nil {
			return nil, &cause{operator: maker, reason: fmt.Sprintf("it has two attributes %q", a.GetName())}
		}
		name := a.GetName()
		if ref := a.GetRefAttrName(); ref != "" {
			a = s.attrs[ref]
		}
		if a != nil {
			c.attrs[name] = a
		}
	}
	return p.apply(c, maker)
}

// apply finds the rule and applies it.
func (p *prover) apply(c *call, maker string) ([]*value, *cause) {
	key := operatorKey{standard(c.node.GetDomain()), c.node.GetOpType()}
	op, known := p.operators[key]
	f := p.functions[functionKey{key.domain, key.name, c.node.GetOverload()}]
	if f != nil && !known {
		op = operator{
			apply: func(c *call) []*value { return c.function(f) }, counts: true, opaque: true, walks: true,
		}
	}
	why := causeOf(c.in)
	switch {
	case why != nil && !op.walks && (key.name == "Shape" || key.name == "Size"):
		// Rows that met are not seen in how many there are.
		return nil, &cause{operator: why.operator, reason: why.reason, refused: why.refused}
	case why != nil && !op.walks:
		return nil, why
	case f != nil && known:
		return nil, &cause{operator: maker, reason: "the model has a function of the same name"}
	case f != nil && p.replaced:
		return nil, &cause{operator: maker, reason: "a library of --ort-ops may have an operator of this name, which ONNX " +
			"Runtime prefers to the model's function"}
	case f != nil:
	case !known:
		return nil, &cause{operator: maker, reason: "there is no rule for this operator"}
	case c.version == 0:
		return nil, &cause{
			operator: maker,
			reason:   fmt.Sprintf("the model does not import the operator set %q", key.domain),
		}
	}
	var out []*value
	c.attempt(func() {
		if i := slices.IndexFunc(c.in, (*value).isCounts); i >= 0 && !op.counts {
			c.differs(i)
		}
		out = op.apply(c)
	})
	independent := !slices.ContainsFunc(c.in, func(v *value) bool { return v != nil && v.kind != shared })
	switch {
	case out != nil && op.opaque: // it may bring rows from outside its inputs
		return out, nil
	case out != nil:
		for _, v := range out {
			if v != nil {
				v.own = slices.ContainsFunc(c.in, (*value).holdsOwn)
			}
		}
		return out, nil
	case c.why != nil:
		return nil, c.why
	case independent && !op.opaque:
		// Whatever it does, its inputs are the same for all rows.
		out = make([]*value, len(c.node.GetOutput()))
		for i := range out {
			out[i] = &value{}
		}
		return out, nil
	}
	if c.reason == "" {
		c.reason = "there is no rule for this use of it"
	}
	filled := slices.ContainsFunc(c.in, func(v *value) bool { return v != nil && v.kind == rows && !v.own })
	return nil, (&cause{operator: maker, reason: c.reason, mixes: c.mixes && !filled, refused: c.refused}).or(why)
}
