package structure

import (
	"fmt"
	"maps"

	"github.com/weftserve/weft/proto/gen/onnx"
)

// Verdict is the conclusion from the structure of a graph about its rows.
type Verdict struct {
	Proven bool // every output's rows depend on their own rows only, whatever the inputs hold
	// where proven: the dimension of rows of each output, absent where an output has none (is the same for all)
	Outputs map[string]int
	// where not proven: the operator that stood in the way, as `ReduceMean "node name"`; "" if it is no operator
	Operator string
	Mixes    bool   // where not proven: rows are sure to meet there, rather than not known not to
	Reason   string // one clause: why, such as `it has no rule`
	Nodes    int    // how many nodes the graph has, those of graphs inside it and of the model's own functions included
}

// Prove carries the rows of the inputs through the graph. Axes says by name along which dimension an input has its
// rows; one that is not in it has none. Prove may be called from several goroutines at once.
func (m *Model) Prove(axes map[string]int) Verdict {
	p := &prover{operators: operators, functions: m.functions}
	v := Verdict{Nodes: m.nodes}
	for {
		p.outputs, p.decided = map[string]int{}, 0
		why := p.run(m.proto, axes)
		if why == nil && v.Proven && !maps.Equal(p.outputs, v.Outputs) {
			why = &cause{reason: "along which dimensions outputs have their rows depends on a condition"}
		}
		switch {
		case why == nil:
			v.Proven, v.Outputs = true, p.outputs
		case why.refused && !v.Proven:
			v.Operator, v.Reason, v.Mixes = why.operator, why.reason, why.mixes
		case !why.refused:
			return Verdict{Operator: why.operator, Reason: why.reason, Mixes: why.mixes, Nodes: m.nodes}
		}
		if !p.another() {
			break
		}
	}
	if v.Proven {
		v.Operator, v.Reason, v.Mixes = "", "", false
	}
	return v
}

// decide returns which side of a condition this proof of the graph takes; not ok: there are too many to try all.
func (p *prover) decide() (side, ok bool) {
	if p.decided == len(p.sides) {
		if len(p.sides) == maxDecisions {
			return false, false
		}
		p.sides = append(p.sides, true)
	}
	p.decided++
	return p.sides[p.decided-1], true
}

// another prepares the next proof, which takes another side somewhere; not so: all have been tried.
func (p *prover) another() bool {
	for len(p.sides) > 0 {
		last := len(p.sides) - 1
		if p.sides[last] {
			p.sides[last] = false
			return true
		}
		p.sides = p.sides[:last]
	}
	return false
}

// prover is the state of one proof.
type prover struct {
	operators map[operatorKey]operator
	functions map[functionKey]*onnx.FunctionProto
	symbols   symbol
	steps     int // nodes looked at, again and again where they are in a loop
	depth     int // of graphs within graphs
	loops     int // of which the node at hand is inside
	outputs   map[string]int
	// sides are those that this proof of the graph takes of conditions that are the same for all rows, where the graphs
	// of the two sides give values that cannot be described together. Every combination is a proof of its own.
	sides   []bool
	decided int // how many of them were taken
}

// Beyond these a proof is given up: graphs can be written that double the work with each loop or function inside
// another.
const (
	maxSteps     = 100_000
	maxDepth     = 32
	maxDecisions = 6
)

func (p *prover) fresh() dim {
	p.symbols++
	return dim{coef: 1, syms: []symbol{p.symbols}}
}

// run returns why the rows are not known to be independent; nil: they are, and p.outputs is filled.
func (p *prover) run(m *onnx.ModelProto, axes map[string]int) *cause {
	g := m.GetGraph()
	s, why := newScope(nil, m.GetOpsetImport())
	if why != nil {
		return why
	}
	if why := p.constants(g, s); why != nil {
		return why
	}
	if why := p.inputs(g, s, axes); why != nil {
		return why
	}
	p.nodes(g.GetNode(), s)
	why = nil
	for _, out := range g.GetOutput() {
		if c := p.output(s, out.GetName()); c != nil {
			why = c.or(why)
		}
	}
	return why
}

// inputs adds the inputs of a model to its values.
func (p *prover) inputs(g *onnx.GraphProto, s *scope, axes map[string]int) *cause {
	known := map[string]bool{}
	for _, in := range g.GetInput() {
		name := in.GetName()
		known[name] = true
		axis, hasRows := axes[name]
		if _, fixed := s.values[name]; fixed && !hasRows {
			continue // a weight that a caller might replace, and which nobody does
		}
		v := p.declared(in)
		switch {
		case v == nil:
			v = mixedBy("", "input %q is no tensor", name)
		case hasRows && (axis < 0 || axis >= v.rank()):
			return &cause{reason: fmt.Sprintf("input %q has no dimension %d", name, axis)}
		case hasRows:
			v.dims[axis] = perRow
			dtype := v.dtype
			v = rowsOf(v.dims, axis)
			v.own, v.dtype = true, dtype
		}
		s.set(name, v, "")
	}
	for name := range axes {
		if !known[name] {
			return &cause{reason: fmt.Sprintf("the graph has no input %q", name)}
		}
	}
	return nil
}

// declared is a tensor that is the same for all rows, as the graph declares it; nil: it is no tensor.
func (p *prover) declared(info *onnx.ValueInfoProto) *value {
	t := info.GetType().GetTensorType()
	if t == nil {
		return nil
	}
	v := &value{dtype: onnx.TensorProto_DataType(t.GetElemType())}
	if t.GetShape() == nil {
		return v
	}
	v.ranked = true
	for _, d := range t.GetShape().GetDim() {
		// Two dimensions of one name are two symbols: nobody enforces that they are equal.
		dim := p.fresh()
		if n, ok := d.GetValue().(*onnx.TensorShapeProto_Dimension_DimValue); ok && n.DimValue >= 0 &&
			small(n.DimValue) {
			dim = size(n.DimValue)
		}
		v.dims = append(v.dims, dim)
	}
	return v
}

// output judges an output of the model.
func (p *prover) output(s *scope, name string) *cause {
	v := s.find(name)
	maker := s.makers[name]
	switch {
	case v == nil:
		return &cause{reason: fmt.Sprintf("nothing computes the output %q", name)}
	case v.kind == mixed:
		return v.why
	case v.kind == counts:
		return &cause{operator: maker, reason: fmt.Sprintf("output %q depends on how many rows there are", name)}
	case v.kind == rows && !v.plain():
		return &cause{
			operator: maker,
			reason:   fmt.Sprintf("output %q does not have one entry for each row along dimension %d", name, v.axis),
		}
	case v.kind == rows:
		p.outputs[name] = v.axis
	}
	return nil
}
