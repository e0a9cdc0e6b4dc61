package proof_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"

	"github.com/weftserve/weft/internal/onnxgraph"
)

// dependence is a model whose rows depend on each other under a condition. Its input x is [batch, 4], or [batch, time,
// 4], its output y has the shape of x: x plus one where the condition does not hold, and the result of the mixing where
// it does.
type dependence struct {
	condition condition
	mixing    mixer
	// hidden puts x through a sequence, through which nobody follows its rows: everything behind it is then unknown to
	// a proof by structure.
	hidden bool
	// chosen has an If mix all rows where the condition holds for one of them, in the place of Where.
	chosen bool
	within []string // wrappers of all nodes, the inner one first
}

func (h dependence) name() string {
	name := h.condition.name + "/" + h.mixing.name
	for _, is := range []struct {
		so   bool
		name string
	}{{h.hidden, "hidden"}, {h.chosen, "chosen"}, {len(h.within) > 0, strings.Join(h.within, " in ")}} {
		if is.so {
			name += ", " + is.name
		}
	}
	return name
}

// condition says when rows depend on each other. It declares the inputs it needs and returns a bool tensor that spreads
// over x.
type condition struct {
	name string
	when func(b *builder) string
}

// mixer makes of the rows of x, together, a tensor of its shape.
type mixer struct {
	name string
	mix  func(b *builder) string
	// timeless mixings take x without a time axis only.
	timeless bool
	// placed ones make of a row what its place among others says, by a parameter: its values, which no proof knows before
	// requests bring them, must be equal in a batch, and a batch of copies of a row shows what one of others does.
	placed bool
}

// marshal returns the model file.
func (h dependence) marshal() []byte {
	b := &builder{Graph: onnxgraph.New(h.name())}
	b.Opset("", 20)
	dims := []any{"batch", 4}
	if h.condition.name == "long sequence" {
		dims = []any{"batch", "time", 4}
	}
	b.Input("input", onnxgraph.Float, dims...)
	if h.hidden {
		b.Node("SequenceAt", []string{b.op("SequenceConstruct", []string{"input"}), b.int(0)}, []string{"x"})
	} else {
		b.Node("Identity", []string{"input"}, []string{"x"})
	}
	one := b.float(1)
	plain := b.op("Add", []string{"x", one})
	switch {
	case h.chosen:
		condition := b.op("Greater", []string{b.ofAll("ReduceMax", b.castFloat(h.condition.when(b))), b.float(0)})
		then := &builder{Graph: onnxgraph.New("then"), values: 1000}
		then.AnyOutput(h.mixing.mix(then))
		otherwise := onnxgraph.New("otherwise").Node("Identity", []string{plain}, []string{"same"}).AnyOutput("same")
		b.Node("If", []string{condition}, []string{"y"}, onnxgraph.GraphAttr("then_branch", then.Graph),
			onnxgraph.GraphAttr("else_branch", otherwise))
	case h.condition.when == nil:
		b.Node("Identity", []string{h.mixing.mix(b)}, []string{"y"})
	default:
		mixed := h.mixing.mix(b)
		b.Node("Where", []string{h.condition.when(b), mixed, plain}, []string{"y"})
	}
	b.Output("y", onnxgraph.Float, dims...)
	for _, w := range h.within {
		b.Within(w)
	}
	return b.Marshal()
}

// builder names the values of a graph by itself.
type builder struct {
	*onnxgraph.Graph
	values int
}

func (b *builder) fresh() string {
	b.values++
	return fmt.Sprintf("v%d", b.values)
}

func (b *builder) op(op string, inputs []string, attrs ...onnxgraph.Attr) string {
	out := b.fresh()
	b.Node(op, inputs, []string{out}, attrs...)
	return out
}

func (b *builder) float(v float32) string {
	name := b.fresh()
	b.InitFloats(name, nil, v)
	return name
}

func (b *builder) int(v int64) string {
	name := b.fresh()
	b.InitInt64s(name, nil, v)
	return name
}

func (b *builder) ints(v ...int64) string {
	name := b.fresh()
	b.InitInt64s(name, []int64{int64(len(v))}, v...)
	return name
}

// rows returns the number of rows, a scalar.
func (b *builder) rows() string {
	return b.op("Gather", []string{b.op("Shape", []string{"x"}), b.int(0)})
}

// column returns column i of x, [batch, 1].
func (b *builder) column(i int64) string {
	return b.op("Gather", []string{"x", b.ints(i)}, onnxgraph.IntAttr("axis", 1))
}

// positions returns the number of each row, [batch, 1], int64.
func (b *builder) positions() string {
	return b.op("Unsqueeze", []string{b.op("Range", []string{b.int(0), b.rows(), b.int(1)}), b.ints(1)})
}

func (b *builder) castFloat(v string) string {
	return b.op("Cast", []string{v}, onnxgraph.IntAttr("to", int64(onnxgraph.Float)))
}

// ofRow reduces over the row's own elements, ofAll over everything.
func (b *builder) ofRow(reduce, v string) string {
	return b.op(reduce, []string{v, b.ints(1)}, onnxgraph.IntAttr("keepdims", 1))
}

func (b *builder) ofAll(reduce, v string) string {
	return b.op(reduce, []string{v}, onnxgraph.IntAttr("keepdims", 0))
}

// conditions are the cases in which rows do: by a parameter without rows, by the values of a row or one of its mates,
// by how many rows there are and where, and by the length of another axis.
var conditions = []condition{
	{"always", nil},
	{"bool parameter", func(b *builder) string {
		b.Input("train", onnxgraph.Bool)
		return "train"
	}},
	{"int parameter is 11", func(b *builder) string {
		b.Input("mode", onnxgraph.Int64)
		return b.op("Equal", []string{"mode", b.int(11)})
	}},
	{"int parameter is negative", func(b *builder) string {
		b.Input("mode", onnxgraph.Int64)
		return b.op("Less", []string{"mode", b.int(0)})
	}},
	{"float parameter above 100", func(b *builder) string {
		b.Input("ratio", onnxgraph.Float)
		return b.op("Greater", []string{"ratio", b.float(100)})
	}},
	{"float parameter is 0.5", func(b *builder) string {
		b.Input("ratio", onnxgraph.Float)
		return b.op("Equal", []string{"ratio", b.float(0.5)})
	}},
	{"two parameters", func(b *builder) string {
		b.Input("train", onnxgraph.Bool)
		b.Input("mode", onnxgraph.Int64)
		return b.op("And", []string{"train", b.op("Equal", []string{"mode", b.int(1)})})
	}},
	{"own magnitude", func(b *builder) string {
		return b.op("Greater", []string{b.ofRow("ReduceMax", b.op("Abs", []string{"x"})), b.float(50)})
	}},
	{"a mate's magnitude", func(b *builder) string {
		return b.op("Greater", []string{b.ofAll("ReduceMax", b.op("Abs", []string{"x"})), b.float(50)})
	}},
	{"beyond 1e30", func(b *builder) string {
		return b.op("Greater", []string{b.ofRow("ReduceMax", b.op("Abs", []string{"x"})), b.float(1e30)})
	}},
	{"tiny", func(b *builder) string {
		return b.op("Less", []string{b.ofRow("ReduceMin", b.op("Abs", []string{"x"})), b.float(1e-12)})
	}},
	{"all negative", func(b *builder) string {
		return b.op("Less", []string{b.ofRow("ReduceMax", "x"), b.float(-0.4)})
	}},
	{"id above 100", func(b *builder) string {
		b.Input("id", onnxgraph.Int64, "batch", 1)
		return b.op("Greater", []string{"id", b.int(100)})
	}},
	{"negative id", func(b *builder) string {
		b.Input("id", onnxgraph.Int64, "batch", 1)
		return b.op("Less", []string{"id", b.int(0)})
	}},
	{"id is 77", func(b *builder) string {
		b.Input("id", onnxgraph.Int64, "batch", 1)
		return b.op("Equal", []string{"id", b.int(77)})
	}},
	{"own NaN", func(b *builder) string { return b.op("IsNaN", []string{b.column(0)}) }},
	{"a mate's NaN", func(b *builder) string {
		return b.op("Greater", []string{b.ofAll("ReduceMax", b.castFloat(b.op("IsNaN", []string{"x"}))), b.float(0)})
	}},
	{"own infinity", func(b *builder) string { return b.op("IsInf", []string{b.column(1)}) }},
	{"more than 20 rows", func(b *builder) string { return b.op("Greater", []string{b.rows(), b.int(20)}) }},
	{"an odd number of rows", func(b *builder) string {
		return b.op("Equal", []string{b.op("Mod", []string{b.rows(), b.int(2)}), b.int(1)})
	}},
	{"37 rows", func(b *builder) string { return b.op("Equal", []string{b.rows(), b.int(37)}) }},
	{"after row 40", func(b *builder) string { return b.op("Greater", []string{b.positions(), b.int(40)}) }},
	{"long sequence", func(b *builder) string {
		return b.op("Greater", []string{b.op("Gather", []string{b.op("Shape", []string{"x"}), b.int(1)}), b.int(20)})
	}},
	{"one row in a hundred", func(b *builder) string { return b.rare(97, 13) }},
	{"one row in a thousand", func(b *builder) string { return b.rare(997, 13) }},
}

// rare holds for one row in every modulus, by digits of its first element that nobody can guess.
func (b *builder) rare(modulus, remainder int64) string {
	digits := b.op("Floor", []string{b.op("Mul", []string{b.op("Abs", []string{b.column(0)}), b.float(7919)})})
	whole := b.op("Cast", []string{digits}, onnxgraph.IntAttr("to", int64(onnxgraph.Int64)))
	return b.op("Equal", []string{b.op("Mod", []string{whole, b.int(modulus)}), b.int(remainder)})
}

// mixings are ways in which rows can depend on each other.
var mixings = []mixer{
	{name: "mean", mix: func(b *builder) string {
		return b.op("Add", []string{
			"x",
			b.op("ReduceMean", []string{"x", b.ints(0)}, onnxgraph.IntAttr("keepdims", 1)),
		})
	}},
	{name: "max", mix: func(b *builder) string {
		return b.op("Sub", []string{"x", b.op("ReduceMax", []string{"x", b.ints(0)}, onnxgraph.IntAttr("keepdims", 1))})
	}},
	{name: "sum of all", mix: func(b *builder) string { return b.op("Add", []string{"x", b.ofAll("ReduceSum", "x")}) }},
	{name: "running sum", mix: func(b *builder) string { return b.op("CumSum", []string{"x", b.int(0)}) }},
	{name: "reversed", mix: func(b *builder) string {
		return b.op("Slice", []string{"x", b.ints(-1), b.ints(-1 << 62), b.ints(0), b.ints(-1)})
	}},
	{name: "softmax", mix: func(
		b *builder,
	) string {
		return b.op("Softmax", []string{"x"}, onnxgraph.IntAttr("axis", 0))
	}},
	{name: "attention", timeless: true, mix: func(b *builder) string {
		t := b.op("Transpose", []string{"x"})
		return b.op("MatMul", []string{"x", b.op("MatMul", []string{t, "x"})})
	}},
	{name: "sorted", mix: func(b *builder) string {
		values, indices := b.fresh(), b.fresh()
		k := b.op("Unsqueeze", []string{b.rows(), b.ints(0)})
		b.Node("TopK", []string{"x", k}, []string{values, indices}, onnxgraph.IntAttr("axis", 0))
		return values
	}},
	{name: "row before", mix: func(b *builder) string {
		last := b.op("Slice", []string{"x", b.ints(-1), b.ints(1 << 62), b.ints(0)})
		others := b.op("Slice", []string{"x", b.ints(0), b.ints(-1), b.ints(0)})
		return b.op("Concat", []string{last, others}, onnxgraph.IntAttr("axis", 0))
	}},
	{name: "first row", mix: func(b *builder) string {
		return b.op("Add", []string{"x", b.op("Gather", []string{"x", b.ints(0)}, onnxgraph.IntAttr("axis", 0))})
	}},
	{name: "number of rows", mix: func(b *builder) string { return b.op("Mul", []string{"x", b.castFloat(b.rows())}) }},
	{
		name: "position", timeless: true,
		mix: func(b *builder) string { return b.op("Add", []string{"x", b.castFloat(b.positions())}) },
	},
	{name: "reshaped", timeless: true, mix: func(b *builder) string {
		across := b.op("Reshape", []string{"x", b.ints(4, -1)})
		return b.op("Transpose", []string{across})
	}},
	{name: "normalised", mix: func(b *builder) string {
		return b.op("LpNormalization", []string{"x"}, onnxgraph.IntAttr("axis", 0), onnxgraph.IntAttr("p", 2))
	}},
	{name: "similarity", timeless: true, mix: func(b *builder) string {
		alike := b.op("Einsum", []string{"x", "x"}, onnxgraph.StringAttr("equation", "bi,ci->bc"))
		return b.op("Einsum", []string{alike, "x"}, onnxgraph.StringAttr("equation", "bc,ci->bi"))
	}},
	{name: "pooled", timeless: true, mix: func(b *builder) string {
		row := b.op("Unsqueeze", []string{b.op("Transpose", []string{"x"}), b.ints(0)})
		pooled := b.op("AveragePool", []string{row}, onnxgraph.IntsAttr("kernel_shape", 3),
			onnxgraph.IntsAttr("pads", 1, 1))
		return b.op("Transpose", []string{b.op("Squeeze", []string{pooled, b.ints(0)})})
	}},
	{name: "triangle by a parameter", timeless: true, placed: true, mix: func(b *builder) string {
		b.Input("k", onnxgraph.Int64)
		return b.op("Trilu", []string{"x", "k"}, onnxgraph.IntAttr("upper", 0))
	}},
	{name: "quantised together", mix: func(b *builder) string {
		y, scale, zero := b.fresh(), b.fresh(), b.fresh()
		b.Node("DynamicQuantizeLinear", []string{"x"}, []string{y, scale, zero})
		return b.op("DequantizeLinear", []string{y, scale, zero})
	}},
}

// dependences are all conditions with all mixings.
func dependences(hidden bool) (all []dependence) {
	for _, c := range conditions {
		for _, m := range mixings {
			if !m.timeless || c.name != "long sequence" {
				all = append(all, dependence{condition: c, mixing: m, hidden: hidden})
			}
		}
	}
	return all
}

// drawDependence draws one. All its nodes may stand within functions and graphs of nodes.
func drawDependence(rng *rand.Rand) dependence {
	for {
		h := dependence{condition: conditions[rng.IntN(len(conditions))], mixing: mixings[rng.IntN(len(mixings))]}
		h.hidden = rng.IntN(2) == 0
		h.chosen = h.condition.when != nil && !h.mixing.placed && rng.IntN(3) == 0
		for range rng.IntN(4) {
			h.within = append(h.within, onnxgraph.Wrappers[rng.IntN(len(onnxgraph.Wrappers))])
		}
		unshaped := h.hidden && slices.Contains(h.within, "Scan") // which ONNX Runtime does not run
		if !unshaped && (!h.mixing.timeless || h.condition.name != "long sequence") {
			return h
		}
	}
}
