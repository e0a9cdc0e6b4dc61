package host_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"

	"github.com/weftserve/weft/internal/onnxgraph"
)

// odd is a model with an odd signature, drawn from a seed: outputs that are listed twice, that are inputs, constants or
// defaults, of every type and rank, with sizes of zero and with names that need care. Its rows never meet, but where
// an output counts them or is a sum of them.
type odd struct {
	*onnxgraph.Graph

	rng     *rand.Rand
	rows    int // that each request must bring; 0: any
	values  []oddValue
	outputs []string // each name once, in the order in which they are first listed
	listed  int      // outputs, with the ones that are listed again
}

// oddValue is a tensor of the graph. Where rows stands for the first dimension, dims are the others.
type oddValue struct {
	name  string
	dtype onnxgraph.DType
	dims  []int64
	rows  bool

	sequence bool // of such tensors, which cannot be served
}

var oddTypes = []onnxgraph.DType{
	onnxgraph.Float, onnxgraph.Float, onnxgraph.Double, onnxgraph.Float16, onnxgraph.Int64, onnxgraph.Int32,
	onnxgraph.Int8, onnxgraph.Uint8, onnxgraph.Bool, onnxgraph.String,
}

// oddNames are names that are something else to a format, a shell, a path or a query; they are all legal.
var oddNames = []string{
	" ", "a b", "x:0", "in/put", "../up", "a.b", "null", "true", "0", "-1", `"`, `\`, "'", "%s", "{}", "[0]", "a\nb",
	"\t", "日本", "é", "e\u0301", "__proto__", "constructor", "outputs", "inputs[\"x\"]", "NaN", "?", "&=", "#",
	strings.Repeat("n", 300), "\u202e", "\U0001f9f5", "X", "x",
}

func newOdd(rng *rand.Rand) *odd {
	o := &odd{Graph: onnxgraph.New("odd"), rng: rng}
	o.Opset("", 17+int64(rng.IntN(4)))
	if rng.IntN(4) == 0 {
		o.rows = 1 + rng.IntN(3)
	}
	for range 1 + rng.IntN(3) {
		o.input()
	}
	for range rng.IntN(3) {
		o.constant()
	}
	for range 1 + rng.IntN(6) {
		o.node()
	}
	o.list()
	return o
}

// name returns an unused name.
func (o *odd) name() string {
	name := fmt.Sprintf("v%d", len(o.values))
	if o.rng.IntN(3) == 0 {
		name = oddNames[o.rng.IntN(len(oddNames))]
	}
	for slices.ContainsFunc(o.values, func(v oddValue) bool { return v.name == name }) {
		name += "_"
	}
	return name
}

func (o *odd) dims(most int) (dims []int64) {
	for range o.rng.IntN(most) {
		dims = append(dims, []int64{1, 2, 3, 4, 4, 0}[o.rng.IntN(6)])
	}
	return dims
}

// declared are the dimensions of a value as a graph may declare them.
func (o *odd) declared(v oddValue) (dims []any) {
	if v.rows && o.rows > 0 {
		dims = append(dims, o.rows)
	} else if v.rows {
		dims = append(dims, []any{"batch", "batch", "batch", nil, "N"}[o.rng.IntN(5)])
	}
	for _, d := range v.dims {
		dims = append(dims, d)
	}
	return dims
}

func (o *odd) add(v oddValue) oddValue {
	v.name = o.name()
	o.values = append(o.values, v)
	return v
}

func (o *odd) input() {
	v := o.add(oddValue{dtype: oddTypes[o.rng.IntN(len(oddTypes))], dims: o.dims(3), rows: o.rng.IntN(5) > 0})
	o.Input(v.name, v.dtype, o.declared(v)...)
}

// constant adds an initializer, which is an input with a default now and then.
func (o *odd) constant() {
	v := o.add(oddValue{dtype: onnxgraph.Float, dims: o.dims(3)})
	o.InitFloats(v.name, v.dims, oddFloats(o.rng, v.dims)...)
	if o.rng.IntN(2) == 0 {
		o.Input(v.name, v.dtype, o.declared(v)...)
	}
}

func oddFloats(rng *rand.Rand, dims []int64) []float32 {
	n := int64(1)
	for _, d := range dims {
		n *= d
	}
	values := make([]float32, n)
	for i := range values {
		values[i] = float32(rng.NormFloat64())
	}
	return values
}

func isOddNumber(d onnxgraph.DType) bool {
	return d == onnxgraph.Float || d == onnxgraph.Double || d == onnxgraph.Float16 || d == onnxgraph.Int64 ||
		d == onnxgraph.Int32
}

// node adds an operator that leaves rows apart, on a value that it can take.
func (o *odd) node() {
	in := o.values[o.rng.IntN(len(o.values))]
	for in.sequence {
		in = o.values[o.rng.IntN(len(o.values))] // the first one is an input
	}
	out := in
	out.dims = slices.Clone(in.dims)
	op, ins, attrs := "Identity", []string{in.name}, []onnxgraph.Attr(nil)
	last := len(in.dims) - 1
	switch kind := o.rng.IntN(12); {
	case kind < 3 && isOddNumber(in.dtype):
		op = []string{"Neg", "Abs", "Relu"}[kind]
		if op == "Relu" && in.dtype != onnxgraph.Float {
			op = "Neg"
		}
	case kind < 3 && in.dtype == onnxgraph.Bool:
		op = "Not"
	case kind == 3 && isOddNumber(in.dtype):
		op, ins = "Add", []string{in.name, in.name}
	case kind == 4 && in.dtype != onnxgraph.String && in.dtype != onnxgraph.Float16:
		out.dtype = []onnxgraph.DType{onnxgraph.Float, onnxgraph.Int64, onnxgraph.Bool, onnxgraph.Uint8}[o.rng.IntN(4)]
		op, attrs = "Cast", []onnxgraph.Attr{onnxgraph.IntAttr("to", int64(out.dtype))}
	case kind == 5 && last >= 0 && in.dtype != onnxgraph.Bool:
		op, ins, attrs = "Concat", []string{in.name, in.name}, []onnxgraph.Attr{onnxgraph.IntAttr("axis", -1)}
		out.dims[last] *= 2
	case kind == 6:
		axis := int64(-1)
		axes := o.add(oddValue{dtype: onnxgraph.Int64, dims: []int64{1}})
		o.InitInt64s(axes.name, []int64{1}, axis)
		op, ins, out.dims = "Unsqueeze", []string{in.name, axes.name}, append(out.dims, 1)
	case kind == 7:
		out = oddValue{dtype: onnxgraph.Int64, dims: []int64{int64(len(in.dims))}}
		if op = "Shape"; in.rows {
			out.dims[0]++
		}
	case kind == 8 && in.rows && in.dtype == onnxgraph.Float && o.rng.IntN(3) == 0:
		op, attrs, out.rows = "ReduceSum", []onnxgraph.Attr{onnxgraph.IntAttr("keepdims", 0)}, false
		axes := o.add(oddValue{dtype: onnxgraph.Int64, dims: []int64{1}})
		o.InitInt64s(axes.name, []int64{1}, 0)
		ins = append(ins, axes.name)
	case kind == 9:
		out = oddValue{dtype: onnxgraph.Float, dims: o.dims(3)}
		op, ins, attrs = "Constant", nil, []onnxgraph.Attr{onnxgraph.TensorAttr("value", out.dtype, out.dims,
			onnxgraph.FloatBytes(oddFloats(o.rng, out.dims)))}
	case kind == 10: // branches that give what is there already
		condition := o.add(oddValue{dtype: onnxgraph.Bool})
		o.Init(condition.name, onnxgraph.Bool, nil, []byte{byte(o.rng.IntN(2))})
		op, ins = "If", []string{condition.name}
		for _, branch := range []string{"then_branch", "else_branch"} {
			inner := fmt.Sprintf("%s_%d", branch, len(o.values))
			attrs = append(attrs, onnxgraph.GraphAttr(branch, onnxgraph.New(branch).AnyOutput(inner).
				Node("Identity", []string{in.name}, []string{inner})))
		}
	case kind == 11:
		op, out.sequence = "SequenceConstruct", true
	}
	out = o.add(out)
	o.Node(op, ins, []string{out.name}, attrs...)
}

// list lists the outputs: any values, some of them again.
func (o *odd) list() {
	n := 1 + o.rng.IntN(5)
	var chosen []oddValue
	for range n {
		v := o.values[len(o.values)-1-o.rng.IntN(min(len(o.values), 5))]
		if len(chosen) > 0 && o.rng.IntN(3) == 0 {
			v = chosen[o.rng.IntN(len(chosen))]
		}
		chosen = append(chosen, v)
		if !v.sequence {
			o.listed++
			if !slices.Contains(o.outputs, v.name) {
				o.outputs = append(o.outputs, v.name)
			}
		}
		if v.sequence || o.rng.IntN(6) == 0 {
			o.AnyOutput(v.name)
		} else {
			o.Output(v.name, v.dtype, o.declared(v)...)
		}
	}
}
