package structure

import (
	"fmt"
	"maps"
	"math/bits"
	"slices"

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
	p := &prover{
		operators: operators, functions: m.functions, replaced: m.replaced,
		opsets: m.proto.GetOpsetImport(), types: m.types,
	}
	v := Verdict{Nodes: m.nodes}
	var why, refused *cause
	for {
		p.outputs, p.symbols, p.decided, p.empty = map[string]int{}, nil, 0, ""
		zeros := len(p.zeros)
		failed := p.run(m.proto, axes)
		switch {
		case len(p.zeros) > zeros:
			p.sides, v.Proven, why, refused = nil, false, nil, nil // from the start
			continue
		case failed == nil && v.Proven && !maps.Equal(p.outputs, v.Outputs):
			failed = &cause{reason: "along which dimensions outputs have their rows depends on a condition"}
		case failed == nil:
			v.Proven, v.Outputs = true, p.outputs
		}
		if failed != nil && p.empty != "" {
			failed.reason += ", where " + p.empty + " has no entries"
		}
		if failed != nil && failed.refused {
			refused = failed
		} else {
			why = failed.or(why)
		}
		if !p.another() {
			break
		}
	}
	if why == nil && !v.Proven {
		why = refused
	}
	if why == nil {
		return v
	}
	return Verdict{Operator: why.operator, Reason: why.reason, Mixes: why.mixes, Nodes: m.nodes}
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
	replaced  bool                       // the functions may be, by operators
	opsets    []*onnx.OperatorSetIdProto // of the model
	types     typeSet
	symbols   []extent // by symbol
	steps     int      // nodes looked at, again and again where they are in a loop
	depth     int      // of graphs within graphs
	loops     int      // how many loops the node at hand is inside
	outputs   map[string]int
	// sides are the ones that this proof of the graph takes of conditions that are the same for all rows, where the graphs
	// of the two sides give values that cannot be described together. Every combination is a proof of its own.
	sides   []bool
	decided int // how many of them were taken
	// zeros are the sizes of inputs. Each is a decision, too: it is above 0, or it is 0.
	zeros []symbol
	empty string // a dimension that is 0 in this proof; "": none was decided to be
}

// decideZero has the whole graph proven once for a size above 0, and once for 0, if it is one of an input. If it was
// computed of such, these are decided. The proof at hand is void then.
func (p *prover) decideZero(s symbol) {
	for _, part := range p.symbols[s].parts {
		p.decideZero(part)
	}
	if p.symbols[s].given && len(p.zeros) < maxZeros && !slices.Contains(p.zeros, s) {
		p.zeros = append(p.zeros, s)
	}
}

// Beyond these a proof is given up: graphs can be written that double the work with each loop or function inside
// another.
const (
	maxSteps     = 100_000
	maxDepth     = 32
	maxDecisions = 6
	maxZeros     = 3
)

// fresh is a size that nothing is known about.
func (p *prover) fresh() dim { return p.symbol(extent{bits: sizeBits}) }

// symbol is a size that no more is known about than x.
func (p *prover) symbol(x extent) dim {
	p.symbols = append(p.symbols, x)
	return dim{coef: 1, syms: []symbol{symbol(len(p.symbols) - 1)}}
}

// given is a size of an input, in the words given.
func (p *prover) given(words string) dim {
	d := p.symbol(extent{bits: sizeBits, given: true})
	if !slices.Contains(p.zeros, d.syms[0]) {
		return d
	}
	if positive, ok := p.decide(); ok && !positive {
		p.empty = words
		return zero
	}
	p.symbols[d.syms[0]].positive = true
	return d
}

// extentOf is what is known of a size.
func (p *prover) extentOf(d dim) extent {
	x := extent{positive: d.coef > 0, bits: bits.Len64(uint64(max(d.coef-1, -d.coef)))}
	if _, fixed := d.fixed(); fixed {
		x.bits = bits.Len64(uint64(max(d.coef, -d.coef)))
	}
	if d.n {
		x.bits += sizeBits
	}
	for _, s := range d.syms {
		x.positive, x.bits = x.positive && p.symbols[s].positive, x.bits+p.symbols[s].bits
	}
	return x
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
	for at, d := range t.GetShape().GetDim() {
		// Two dimensions of one name are two symbols: nobody enforces that they are equal.
		dim := p.given(fmt.Sprintf("dimension %d of %q", at, info.GetName()))
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
