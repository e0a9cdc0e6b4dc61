package proof_test

import (
	"strings"
	"testing"

	"github.com/weftserve/weft/internal/onnxgraph"
	"github.com/weftserve/weft/internal/weftest"
	"github.com/weftserve/weft/runtime/modelrepo"
	"github.com/weftserve/weft/runtime/tensor"
)

// graph is a file x [batch, 3] → y [batch, 3]. doubling is one whose rows are independent, mixing one whose rows are
// not, and hidden one whose rows are, which no rule can prove.
func graph(nodes func(g *onnxgraph.Graph)) []byte {
	g := onnxgraph.New("g").Input("x", onnxgraph.Float, "batch", 3).Output("y", onnxgraph.Float, "batch", 3)
	nodes(g)
	return g.Marshal()
}

func doubling() []byte {
	return graph(func(g *onnxgraph.Graph) { g.Node("Add", []string{"x", "x"}, []string{"y"}) })
}

func mixing() []byte {
	return graph(func(g *onnxgraph.Graph) {
		g.Node("ReduceMean", []string{"x"}, []string{"mean"}, onnxgraph.IntsAttr("axes", 0))
		g.Node("Sub", []string{"x", "mean"}, []string{"y"})
	})
}

func hidden() []byte {
	return graph(func(g *onnxgraph.Graph) {
		g.InitInt64s("first", nil, 0)
		g.Node("SequenceConstruct", []string{"x"}, []string{"sequence"})
		g.Node("SequenceAt", []string{"sequence", "first"}, []string{"same"})
		g.Node("Add", []string{"same", "same"}, []string{"y"})
	})
}

// TestVerdictsByStructure: a proof by the graph needs no examples, but they may deny it for differences that rounding
// cannot explain.
func TestVerdictsByStructure(t *testing.T) {
	off := func(by float32) *weftest.Engine {
		return over(func(rows [][]float32) {
			for _, r := range rows {
				if len(rows) > 1 {
					r[0] *= 1 + by
				}
			}
		})
	}
	never := func() *weftest.Engine { return weftest.OverRows(3, upTo(0, errOther)) }
	tolerant := func(b *modelrepo.Batching) { b.Tolerance = 1e-4 }
	verdicts(t, []subject{
		is("as it says", "64 by structure: proven harmless by structure: the graph gives each row",
			doubles()).of(doubling()),
		is("rounding", "64 by structure: (largest difference 5e-05 of the largest value)", off(5e-5)).of(doubling()),
		is("beyond rounding", `none: output "y" of a row differs by 0.0`, off(0.1)).of(doubling()),
		is("a batch fails", "none: a batch of 16 rows fails: not for me",
			weftest.OverRows(3, upTo(8, errOther))).of(doubling()),
		is("no memory for 16 rows", "64 by structure: ", weftest.OverRows(3, upTo(8, errFull))).of(doubling()),
		is("nothing made up is taken",
			"64 by structure: no batch was compared, because the model fails on made-up inputs even for one row: not "+
				"for me",
			never()).of(doubling()),
		is("it crashes", "none: fails on made-up inputs even for one row: SIGFPE",
			weftest.OverRows(3, upTo(0, errCrash))).of(doubling()),
		is("a graph that mixes", "none: the graph lets rows meet at ReduceMean", doubles()).of(mixing()),
		is("one that mixes a little", "64 by examples: ; obstacle ReduceMean",
			doubles()).with(tolerant).of(mixing()),
		is("an operator without a rule", "64 by examples: ; obstacle SequenceConstruct", doubles()).of(hidden()),
		is("no graph", "64 by examples: ; obstacle the file cannot be read for its structure: ",
			doubles()).of([]byte("nonsense")),
		is("on", "64 by trusted: mode is on", doubles()).with(mode(modelrepo.BatchOn)).of(doubling()),
		is("off", "none: batching.mode is off", doubles()).with(mode(modelrepo.BatchOff)).of(doubling()),
		is("rows of the output elsewhere",
			`64 by examples: ; obstacle output "y" has its rows in another dimension than batching.batch_dim.outputs `+
				`states`,
			doubles()).with(func(b *modelrepo.Batching) {
			b.BatchDim.Outputs = map[string]int{"y": 0}
		}).of(graph(func(g *onnxgraph.Graph) {
			g.Node("Add", []string{"x", "x"}, []string{"twice"})
			g.Node("Transpose", []string{"twice"}, []string{"y"}, onnxgraph.IntsAttr("perm", 1, 0))
		})),
	})
}

// TestRowsByStructure: in which dimension they are, where neither names nor a state say so: of an output, and of a
// network that runs along the first dimension, be it the last step that it gives, or each, which shows nothing.
func TestRowsByStructure(t *testing.T) {
	const unknown = tensor.Unknown
	turned := onnxgraph.New("turned").Input("x", onnxgraph.Float, nil, 4).Output("y", onnxgraph.Float, nil, nil).
		Node("Transpose", []string{"x"}, []string{"y"}, onnxgraph.IntsAttr("perm", 1, 0)).Marshal()
	network := func(last, hidden bool) []byte {
		g := onnxgraph.New("g").Opset("", 20).Input("x", onnxgraph.Float, nil, nil, 2)
		g.InitFloats("w", []int64{1, 12, 2}, make([]float32, 24)...)
		g.InitFloats("r", []int64{1, 12, 3}, make([]float32, 36)...)
		g.InitInt64s("0", nil, 0)
		g.Node("LSTM", []string{"x", "w", "r"}, []string{"all", "last"}, onnxgraph.IntAttr("hidden_size", 3))
		from, axis := "all", int64(1)
		if last {
			from, axis = "last", 0
		}
		if hidden {
			g.Node("SequenceConstruct", []string{from}, []string{"s"})
			g.Node("SequenceAt", []string{"s", "0"}, []string{"again"})
			from = "again"
		}
		g.InitInt64s("axis", []int64{1}, axis)
		return g.Node("Squeeze", []string{from, "axis"}, []string{"y"}).AnyOutput("y").Marshal()
	}
	model := func(output tensor.Spec, shape func(x tensor.Shape) tensor.Shape, input tensor.Spec) *weftest.Engine {
		return &weftest.Engine{
			Declared: tensor.Signature{Inputs: []tensor.Spec{input}, Outputs: []tensor.Spec{output}},
			Answer: func(b *tensor.Batch) error {
				s := shape(b.Inputs[0].Shape)
				n, _ := s.Elements()
				clear(b.Output(0, tensor.Float32, s, int(4*n)))
				return nil
			},
		}
	}
	x, steps := weftest.Spec(
		"x",
		tensor.Float32,
		unknown,
		unknown,
		2,
	), weftest.Spec(
		"y",
		tensor.Float32,
		unknown,
		unknown,
		3,
	)
	for name, c := range map[string]struct {
		model           *weftest.Engine
		graph           []byte
		input, output   int // dimensions of the rows
		reason          string
		states, allowed bool
	}{
		"an output that is turned": {
			model(weftest.Spec("y", tensor.Float32, unknown, unknown),
				func(s tensor.Shape) tensor.Shape { return tensor.Shape{4, s[0]} },
				weftest.Spec("x", tensor.Float32, unknown, 4)), turned, 0, 1, "proven harmless by structure", false, true,
		},
		"the last step": {
			model(weftest.Spec("y", tensor.Float32, unknown, 3),
				func(s tensor.Shape) tensor.Shape { return tensor.Shape{s[1], 3} },
				x), network(true, false), 1, 0, "proven harmless by structure", false, false,
		},
		"each step, which nobody follows": {
			model(steps, func(s tensor.Shape) tensor.Shape { return tensor.Shape{s[0], s[1], 3} }, x), network(false, true),
			0, 0, "name that, as in batching.batch_dim: {inputs: {x: 1}}", false, false,
		},
		"each step, stated": {
			model(steps, func(s tensor.Shape) tensor.Shape { return tensor.Shape{s[0], s[1], 3} }, x), network(false, true),
			1, 1, "", true, false,
		},
	} {
		b := batching()
		if c.allowed {
			b.MaxBatchSize, b.AllowedBatchSizes = 8, []int{8}
		}
		if c.states {
			b.BatchDim.Inputs = map[string]int{"x": 1}
		}
		found, err := proveFile(t, c.model, c.graph, b, &weftest.Log{})
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		s := found.Signature
		if s.Inputs[0].BatchDim != c.input || s.Outputs[0].BatchDim != c.output ||
			!strings.Contains(found.Verdict.Reason, c.reason) {
			t.Errorf("%s: rows in dimension %d and %d: %s", name, s.Inputs[0].BatchDim, s.Outputs[0].BatchDim,
				found.Verdict.Reason)
		}
	}
}
