package proof_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"

	"google.golang.org/protobuf/proto"

	"github.com/weftserve/weft/internal/onnxgraph"
	"github.com/weftserve/weft/internal/onnxgraph/sketch"
	"github.com/weftserve/weft/proto/gen/onnx"
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

// condition says when rows depend on each other, by a sketch of a bool tensor that spreads over x.
type condition struct{ name, inputs, when string }

// mixer makes of the rows of x, together, a tensor of its shape, by a sketch.
type mixer struct {
	name, mix string
	// timeless mixings take x without a time axis only.
	timeless bool
	// placed ones make of a row what its place among others says, by a parameter: its values, which no proof knows before
	// requests bring them, must be equal in a batch, and a batch of copies of a row shows what one of others does.
	placed bool
}

// short are expressions for conditions and mixings: how many rows there are, a scalar; the number of each row; its
// first element; digits of the latter, which nobody can guess.
var short = strings.NewReplacer(
	"#rows", "Gather(Shape(x), 0)", "#place", "Unsqueeze(Range(0, Gather(Shape(x), 0), 1), [1])",
	"#first", "Gather{axis=1}(x, [0])",
	"#digits", "Cast{to=7}(Floor(Mul(Abs(Gather{axis=1}(x, [0])), 7919.0)))",
)

// marshal returns the model file.
func (h dependence) marshal() []byte {
	dims := []string{"batch", "4"}
	if h.condition.name == "long sequence" {
		dims = []string{"batch", "time", "4"}
	}
	inputs := "input[" + strings.Join(dims, ",") + "] " + h.condition.inputs
	if h.mixing.placed {
		inputs += " k:i64[]"
	}
	x, when := "Identity(input)", short.Replace(h.condition.when)
	if h.hidden {
		x = "SequenceAt(SequenceConstruct(input), 0)"
	}
	steps, mixed := "", short.Replace(h.mixing.mix)
	if last := strings.LastIndex(mixed, ";"); last >= 0 {
		steps, mixed = mixed[:last+1], mixed[last+1:]
	}
	y := fmt.Sprintf("%s y = Where(%s, %s, plain); y", steps, when, mixed)
	switch {
	case h.chosen:
		y = fmt.Sprintf("y = If{then_branch=()=>(%s %s),else_branch=()=>(plain)}"+
			"(Greater(ReduceMax{keepdims=0}(Cast{to=1}(%s)), 0.0)); y", steps, mixed, when)
	case when == "":
		y = fmt.Sprintf("%s y = Identity(%s); y", steps, mixed)
	}
	s, err := sketch.Parse(fmt.Sprintf("opset 20; %s; x = %s; plain = Add(x, 1.0); %s", inputs, x, y))
	if err != nil {
		panic(err)
	}
	for _, w := range h.within {
		s.Graph.Within(w)
	}
	var m onnx.ModelProto // a sketch says nothing of outputs
	if err := proto.Unmarshal(s.Graph.Marshal(), &m); err != nil {
		panic(err)
	}
	m.Graph.Output[0].Type = m.GetGraph().GetInput()[0].GetType()
	file, err := proto.Marshal(&m)
	if err != nil {
		panic(err)
	}
	return file
}

// conditions are the cases in which rows do: by a parameter without rows, by the values of a row or one of its mates,
// by how many rows there are and where, and by the length of another axis.
var conditions = []condition{
	{"always", "", ""},
	{"bool parameter", "train:bool[]", "train"},
	{"int parameter is 11", "mode:i64[]", "Equal(mode, 11)"},
	{"int parameter is negative", "mode:i64[]", "Less(mode, 0)"},
	{"float parameter above 100", "ratio[]", "Greater(ratio, 100.0)"},
	{"float parameter is 0.5", "ratio[]", "Equal(ratio, 0.5)"},
	{"two parameters", "train:bool[] mode:i64[]", "And(train, Equal(mode, 1))"},
	{"own magnitude", "", "Greater(ReduceMax(Abs(x), [1]), 50.0)"},
	{"a mate's magnitude", "", "Greater(ReduceMax{keepdims=0}(Abs(x)), 50.0)"},
	{"beyond 1e30", "", "Greater(ReduceMax(Abs(x), [1]), 1.0e30)"},
	{"tiny", "", "Less(ReduceMin(Abs(x), [1]), 1.0e-12)"},
	{"all negative", "", "Less(ReduceMax(x, [1]), -0.4)"},
	{"id above 100", "id:i64[batch,1]", "Greater(id, 100)"},
	{"negative id", "id:i64[batch,1]", "Less(id, 0)"},
	{"id is 77", "id:i64[batch,1]", "Equal(id, 77)"},
	{"own NaN", "", "IsNaN(#first)"},
	{"a mate's NaN", "", "Greater(ReduceMax{keepdims=0}(Cast{to=1}(IsNaN(x))), 0.0)"},
	{"own infinity", "", "IsInf(Gather{axis=1}(x, [1]))"},
	{"more than 20 rows", "", "Greater(#rows, 20)"},
	{"an odd number of rows", "", "Equal(Mod(#rows, 2), 1)"},
	{"37 rows", "", "Equal(#rows, 37)"},
	{"after row 40", "", "Greater(#place, 40)"},
	{"long sequence", "", "Greater(Gather(Shape(x), 1), 20)"},
	{"one row in a hundred", "", "Equal(Mod(#digits, 97), 13)"},
	{"one row in a thousand", "", "Equal(Mod(#digits, 997), 13)"},
}

// mixings are ways in which rows can depend on each other.
var mixings = []mixer{
	{name: "mean", mix: "Add(x, ReduceMean(x, [0]))"},
	{name: "max", mix: "Sub(x, ReduceMax(x, [0]))"},
	{name: "sum of all", mix: "Add(x, ReduceSum{keepdims=0}(x))"},
	{name: "running sum", mix: "CumSum(x, 0)"},
	{name: "reversed", mix: "Slice(x, [-1], [-4611686018427387904], [0], [-1])"},
	{name: "softmax", mix: "Softmax{axis=0}(x)"},
	{name: "attention", mix: "MatMul(x, MatMul(Transpose(x), x))", timeless: true},
	{name: "sorted", mix: "v, i = TopK{axis=0}(x, Unsqueeze(#rows, [0])); v"},
	{
		name: "row before",
		mix:  "Concat{axis=0}(Slice(x, [-1], [4611686018427387904], [0]), Slice(x, [0], [-1], [0]))",
	},
	{name: "first row", mix: "Add(x, Gather(x, [0]))"},
	{name: "number of rows", mix: "Mul(x, Cast{to=1}(#rows))"},
	{name: "position", mix: "Add(x, Cast{to=1}(#place))", timeless: true},
	{name: "reshaped", mix: "Transpose(Reshape(x, [4,-1]))", timeless: true},
	{name: "normalised", mix: "LpNormalization{axis=0,p=2}(x)"},
	{
		name: "similarity", timeless: true,
		mix: `Einsum{equation="bc,ci->bi"}(Einsum{equation="bi,ci->bc"}(x, x), x)`,
	},
	{
		name: "pooled", timeless: true,
		mix: "Transpose(Squeeze(AveragePool{kernel_shape=[3],pads=[1,1]}(Unsqueeze(Transpose(x), [0])), [0]))",
	},
	{name: "triangle by a parameter", mix: "Trilu{upper=0}(x, k)", timeless: true, placed: true},
	{name: "quantised together", mix: "q, s, z = DynamicQuantizeLinear(x); DequantizeLinear(q, s, z)"},
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
		h.chosen = h.condition.when != "" && !h.mixing.placed && rng.IntN(3) == 0
		for range rng.IntN(4) {
			h.within = append(h.within, onnxgraph.Wrappers[rng.IntN(len(onnxgraph.Wrappers))])
		}
		unshaped := h.hidden && slices.Contains(h.within, "Scan") // which ONNX Runtime does not run
		if !unshaped && (!h.mixing.timeless || h.condition.name != "long sequence") {
			return h
		}
	}
}
