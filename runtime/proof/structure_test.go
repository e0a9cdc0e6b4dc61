package proof_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/weftserve/weft/internal/onnxgraph/sketch"
	"github.com/weftserve/weft/internal/weftest"
	"github.com/weftserve/weft/runtime/modelrepo"
	"github.com/weftserve/weft/runtime/tensor"
)

// graph is the file of a sketch. doubling is one whose rows are independent, mixing one whose rows are
// not, and hidden one whose rows are, which no rule can prove.
func graph(text string) []byte {
	s, err := sketch.Parse(text)
	if err != nil {
		panic(err)
	}
	return s.Graph.Marshal()
}

func doubling() []byte { return graph("x[batch,3]; y = Add(x, x); y") }
func mixing() []byte   { return graph("x[batch,3]; y = Sub(x, ReduceMean{axes=[0]}(x)); y") }
func hidden() []byte {
	return graph("x[batch,3]; same = SequenceAt(SequenceConstruct(x), 0); y = Add(same, same); y")
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
		}).of(graph("x[batch,3]; y = Transpose{perm=[1,0]}(Add(x, x)); y")),
	})
}

// TestRowsByStructure: in which dimension they are, where neither names nor a state say so: of an output, and of a
// network that runs along the first dimension, be it the last step that it gives, or each, which shows nothing.
func TestRowsByStructure(t *testing.T) {
	const unknown = tensor.Unknown
	turned := graph("x[A,4]; y = Transpose{perm=[1,0]}(x); y")
	network := func(of string, axis int) []byte {
		return graph(fmt.Sprintf("opset 20; x[A,B,2]; all, last = LSTM{hidden_size=3}(x, <1,12,2>[0.0], <1,12,3>[0.0]); "+
			"y = Squeeze(%s, [%d]); y", of, axis))
	}
	const unfollowed = "SequenceAt(SequenceConstruct(all), 0)"
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
	x := weftest.Spec("x", tensor.Float32, unknown, unknown, 2)
	steps := weftest.Spec("y", tensor.Float32, unknown, unknown, 3)
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
				x), network("last", 0), 1, 0, "proven harmless by structure", false, false,
		},
		"each step, which nobody follows": {
			model(steps, func(s tensor.Shape) tensor.Shape { return tensor.Shape{s[0], s[1], 3} }, x), network(unfollowed, 1),
			0, 0, "name that, as in batching.batch_dim: {inputs: {x: 1}}", false, false,
		},
		"each step, stated": {
			model(steps, func(s tensor.Shape) tensor.Shape { return tensor.Shape{s[0], s[1], 3} }, x), network(unfollowed, 1),
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
