package pipeline_test

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/weftserve/weft/internal/config"
	"github.com/weftserve/weft/internal/onnxgraph/sketch"
	"github.com/weftserve/weft/internal/ortlib"
	"github.com/weftserve/weft/internal/weftest"
	"github.com/weftserve/weft/proto/gen/onnx"
	"github.com/weftserve/weft/runtime/modelrepo"
	"github.com/weftserve/weft/runtime/ort"
	"github.com/weftserve/weft/runtime/pipeline"
	"github.com/weftserve/weft/runtime/tensor"
)

var rewrite = flag.Bool("rewrite", false, "write the golden files anew; read the difference before committing it")

// merge joins models that sketches describe, as a pipeline.yaml says. After a sketch may stand how the model declares
// outputs: "-> y[N,T]".
func merge(t *testing.T, text string, sketches ...string) (*onnx.ModelProto, error) {
	t.Helper()
	var models []*onnx.ModelProto
	for _, s := range sketches {
		m := &onnx.ModelProto{}
		s, declared, _ := strings.Cut(s, " -> ")
		if err := proto.Unmarshal(file(t, s), m); err != nil {
			t.Fatal(err)
		}
		declare(t, m.GetGraph().GetOutput(), declared)
		models = append(models, m)
	}
	return mergeModels(t, text, models...)
}

func mergeModels(t *testing.T, text string, models ...*onnx.ModelProto) (*onnx.ModelProto, error) {
	t.Helper()
	return mergeKeeping(t, text, nil, models...)
}

// mergeKeeping joins models whose settings all have the same state.
func mergeKeeping(t *testing.T, text string, state *modelrepo.State, models ...*onnx.ModelProto,
) (*onnx.ModelProto, error) {
	t.Helper()
	p, err := modelrepo.ReadPipeline("pipeline.yaml", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	for i := range p.Steps {
		p.Steps[i].Of.Dir, p.Steps[i].State = p.Steps[i].Model, state
	}
	var merged *onnx.ModelProto
	err = p.Decode("pipeline.yaml", func() (faults config.Faults) {
		merged, faults = pipeline.Merge(p, models)
		return faults
	})
	return merged, err
}

// TestKeptInputs has steps with states: each is an input and an output of the joined model, also where no output needs
// it, and the settings that name another are a fault of the step's model.
func TestKeptInputs(t *testing.T) {
	const text = "steps:\n- {name: a, model: m, version: 1, inputs: {x: x}}\n" +
		"- {name: b, model: m, version: 1, inputs: {x: a.y}}\noutputs: {y: b.y}\n"
	const model = "opset 17; x[N,2] h[N,3] first[N,1]; y = Neg(x); n = Relu(h); f = Neg(first); y, n, f"
	join := func(state modelrepo.State) (*onnx.ModelProto, error) {
		var models []*onnx.ModelProto
		for range 2 {
			m := &onnx.ModelProto{}
			if err := proto.Unmarshal(file(t, model), m); err != nil {
				t.Fatal(err)
			}
			models = append(models, m)
		}
		return mergeKeeping(t, text, &state, models...)
	}
	m, err := join(modelrepo.State{Pairs: []modelrepo.StatePair{{Input: "h", Output: "n"}}, Start: "first"})
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	for _, v := range slices.Concat(m.GetGraph().GetInput(), m.GetGraph().GetOutput()) {
		all = append(all, v.GetName())
	}
	if got := strings.Join(all, " "); got != "x a.h a.first b.h a.n b.n y" {
		t.Errorf("it has %s", got)
	}
	_, err = join(modelrepo.State{Pairs: []modelrepo.StatePair{{Input: "hh", Output: "m"}}, Start: "first"})
	for _, want := range []string{
		`2:13: steps[0].model: model m version 1 has no input "hh", which state in its settings names; expected one of x, h, first`,
		`3:13: steps[1].model: model m version 1 has no output "m", which state in its settings names; expected one of f, n, y`,
	} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v\nwant: %s", err, want)
		}
	}
}

// declare gives outputs the types that inputs of a sketch would have.
func declare(t *testing.T, outputs []*onnx.ValueInfoProto, types string) {
	t.Helper()
	if types == "" {
		return
	}
	like := &onnx.ModelProto{}
	if err := proto.Unmarshal(file(t, "opset 17; "+types+"; weft = Neg(f(0)); weft"), like); err != nil {
		t.Fatal(err)
	}
	for _, in := range like.GetGraph().GetInput() {
		at := slices.IndexFunc(outputs, func(out *onnx.ValueInfoProto) bool { return out.GetName() == in.GetName() })
		outputs[at].Type = in.GetType()
	}
}

func file(t *testing.T, text string) []byte {
	t.Helper()
	s, err := sketch.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	return s.Graph.Marshal()
}

func open(t *testing.T, model []byte) *ort.Session {
	t.Helper()
	path, err := ortlib.Find()
	if err != nil {
		t.Fatal(err)
	}
	if err := ort.Init(path); err != nil {
		t.Fatal(err)
	}
	s, err := ort.Open(weftest.WriteFile(t, t.TempDir(), "model.onnx", model), ort.Options{IntraOpThreads: 1})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

// run gives the first input values, and returns the outputs.
func run(t *testing.T, s *ort.Session, x tensor.Tensor) (all []tensor.Tensor) {
	t.Helper()
	sig := s.Signature()
	b := tensor.NewBatch(len(sig.Inputs), len(sig.Outputs), nil)
	defer b.Free()
	copy(b.Input(0, x.DType, x.Shape, len(x.Data)), x.Data)
	if err := s.Run(context.Background(), b); err != nil {
		t.Fatal(err)
	}
	for _, o := range b.Outputs {
		all = append(all, tensor.Tensor{DType: o.DType, Shape: slices.Clone(o.Shape), Data: bytes.Clone(o.Data)})
	}
	return all
}

// TestRewritten has a model of an older operator set beside one of opset 21: it answers as it does by itself.
func TestRewritten(t *testing.T) {
	for _, line := range []string{
		"opset 10; x[3,4]; Clip{min=-0.5,max=0.5}(x)",
		"opset 8; x[3,4]; Clip{max=0.5}(x)",
		"opset 10; x[3,4]; Dropout{ratio=0.9}(x)",
		"opset 9; x[3,4]; Dropout(x)",
		"opset 12; x[2,3,4]; Softmax(x)",
		"opset 12; x[2,3,4]; Softmax{axis=2}(x)",
		"opset 11; x[2,3,4]; Softmax{axis=-1}(x)",
		"opset 12; x[2,3,4]; Softmax{axis=0}(x)",
		"opset 12; x[2,3,4]; LogSoftmax(x)",
		"opset 11; x[2,3,4]; Hardmax{axis=1}(x)",
		"opset 10; x[2,3]; Pad{pads=[0,1,2,0]}(x)",
		"opset 10; x[2,3]; Pad{pads=[0,1,2,0],value=1.5}(x)",
		"opset 10; x[2,3]; Pad{mode=\"reflect\",pads=[0,1,1,0]}(x)",
		"opset 11; x[2,3,4]; ReduceSum{axes=[-1,0],keepdims=0}(x)",
		"opset 11; x[2,3,4]; ReduceSum(x)",
		"opset 13; x[2,3,4]; ReduceMean{axes=[1]}(x)",
		"opset 13; x[2,3,4]; ReduceL1{axes=[1]}(x)",
		"opset 13; x[2,3,4]; ReduceL2{axes=[1]}(x)",
		"opset 13; x[2,3,4]; ReduceMax{axes=[1]}(x)",
		"opset 13; x[2,3,4]; ReduceMin{keepdims=0}(x)",
		"opset 13; x[2,3,4]; ReduceProd{axes=[2]}(x)",
		"opset 13; x[2,3,4]; ReduceLogSumExp{axes=[2]}(x)",
		"opset 13; x[2,3,4]; ReduceSumSquare{axes=[2]}(x)",
		"opset 13; x[2,3,4]; ReduceLogSum{axes=[2]}(Abs(x))",
		"opset 9; x[4,5]; Slice{starts=[1,-2],ends=[100,-1]}(x)",
		"opset 9; x[4,5]; Slice{starts=[1],ends=[3],axes=[1]}(x)",
		"opset 11; x[4,6]; a, b = Split{axis=1,split=[1,5]}(x); a, b",
		"opset 11; x[4,6]; a, b, c = Split{axis=1}(x); c, b, a",
		"opset 13; x[4,6]; a, b = Split{axis=1}(x); a, b",
		"opset 13; x[4,6]; a, b = Split{axis=1}(x, [2,4]); a, b",
		"opset 11; x[4,1,6,1]; Squeeze(x)",
		"opset 11; x[4,1,6,1]; Squeeze{axes=[-1,1]}(x)",
		"opset 12; x[4,6]; Unsqueeze{axes=[0,-1]}(x)",
		"opset 9; x[4,6]; v, i = TopK{axis=1,k=2}(x); v, i",
		"opset 8; x[2,3,4]; BatchNormalization(x, <3>, <3>, <3>, <3>[1.5])",
		"opset 13; x[2,3,4]; BatchNormalization{epsilon=0.1}(x, <3>, <3>, <3>, <3>[1.5])",
		"opset 10; x[4,6]; Scatter{axis=1}(x, Cast{to=7}(Greater(x, 0.0)), Neg(x))",
		"opset 16; x[1,2,4,4]; GridSample{mode=\"bilinear\",padding_mode=\"border\"}(x, <1,3,3,2>)",
		"opset 16; x[1,2,4,4]; GridSample{mode=\"bicubic\"}(x, <1,3,3,2>)",
		"opset 16; x[1,2,4,4]; GridSample(x, <1,3,3,2>)",
		"opset 12; x[1,2,8,8]; RoiAlign{output_height=2,output_width=2}(x, <1,4>[1.0,2.0,6.0,7.0], [0])",
		"opset 11; x[2,3]; If{then_branch=()=>(ReduceSum{axes=[1]}(x)),else_branch=()=>(Softmax(x))}(b(1))",
	} {
		t.Run(line, func(t *testing.T) {
			alone := open(t, file(t, line))
			rng := rand.New(rand.NewPCG(1, 2))
			in := alone.Signature().Inputs[0]
			n, _ := in.Shape.Elements()
			var values []float32
			for range n {
				values = append(values, float32(rng.NormFloat64()))
			}
			x := weftest.Floats(in.Shape, values...)
			want := run(t, alone, x)
			var outputs []string
			for i, out := range alone.Signature().Outputs {
				outputs = append(outputs, fmt.Sprintf("out%d: old.%s", i, out.Name))
			}
			text := "steps:\n- {name: old, model: old, version: 1, inputs: {x: x}}\n" +
				"- {name: new, model: new, version: 1, inputs: {y: old." + alone.Signature().Outputs[0].Name + "}}\n" +
				"outputs: {same: new.z, " + strings.Join(outputs, ", ") + "}\n"
			shape := strings.Trim(strings.ReplaceAll(fmt.Sprint(want[0].Shape), " ", ","), "[]")
			merged, err := merge(t, text, line, "opset 21; y["+shape+"]; z = Identity(y); z")
			if err != nil {
				t.Fatal(err)
			}
			model, err := proto.Marshal(merged)
			if err != nil {
				t.Fatal(err)
			}
			got := run(t, open(t, model), x)
			for i := range want {
				if !slices.Equal(got[i].Shape, want[i].Shape) || !bytes.Equal(got[i].Data, want[i].Data) {
					t.Errorf("output %d is %v %v, want %v %v", i, got[i].Shape, weftest.Values(got[i]), want[i].Shape,
						weftest.Values(want[i]))
				}
			}
		})
	}
}

// TestSizes has steps after whose first one a value grows, or whose models call sizes alike that differ: no buffer of
// ONNX Runtime is taken for one of another size, and outputs bear the names of inputs only where they are as long.
func TestSizes(t *testing.T) {
	const (
		before = "- {name: b, model: b, version: 1, inputs: {x: x}}\n"
		grows  = "- {name: a, model: a, version: 1, inputs: {x: b.z}, repeat: 3, carry: {x: y}}\n"
		after  = "- {name: c, model: c, version: 1, inputs: {x: a.y}}\n"
		next   = "- {name: c, model: c, version: 1, inputs: {x: b.z}}\n"
		plain  = "opset 17; x[N,T,2]; z = Add(Neg(x), 1.0); z"
		cache  = "opset 17; x[N,T,2]; y = Concat{axis=1}(x, Relu(x)); w = Add(Neg(Relu(x)), 1.0); y, w"
		fill   = "opset 17; x[N,T,2]; y = Add(<2,3,2>, ReduceSum(x, [1])); w = Neg(x); y, w"
		double = "opset 17; x[N,T,2]; h = Add(Neg(x), 1.0); z = Concat{axis=1}(h, h); z -> z[N,T,2]"
		chain  = "opset 17; x[N,T,2]; y = Sub(Mul(Add(Neg(Relu(x)), 1.0), 2.0), 1.0); y"
	)
	for _, tt := range []struct {
		about, steps, outputs string
		models                []string
		want                  string
	}{
		{
			"the last run gives more", before + grows, "o: a.y, w: a.w",
			[]string{plain, cache},
			"[N,T,2] gives o[?,?,2] {2,8,2}, w[?,?,2] {2,4,2}",
		},
		{
			"all runs are in the loop", before + grows, "o: a.y",
			[]string{plain, cache},
			"[N,T,2] gives o[] {2,8,2}",
		},
		{
			"another step follows", before + grows + after, "o: c.y, w: a.w",
			[]string{plain, cache, chain},
			"[N,T,2] gives o[?,?,2] {2,8,2}, w[?,?,2] {2,4,2}",
		},
		{
			"the models name what they give", before + grows, "o: a.y, w: a.w",
			[]string{plain + " -> z[N,T,2]", cache + " -> y[N,U,2] w[N,T,2]"},
			"[N,T,2] gives o[N,U,2] {2,8,2}, w[N,?,2] {2,4,2}",
		},
		{
			"it is short by a number", before + grows, "o: a.y, w: a.w",
			[]string{plain + " -> z[N,1,2]", cache + " -> y[N,U,2] w[N,T,2]"},
			"[N,T,2] gives o[N,U,2] {2,8,2}, w[N,?,2] {2,4,2}",
		},
		{
			"it is short and then long by numbers", before + grows, "o: a.y, w: a.w",
			[]string{plain + " -> z[N,1,2]", fill + " -> y[2,3,2] w[N,T,2]"},
			"[N,T,2] gives o[2,3,2] {2,3,2}, w[?,?,2] {2,3,2}",
		},
		{
			"it is named alike", before + grows, "o: a.y, w: a.w",
			[]string{plain, cache + " -> y[N,T,2] w[N,T,2]"},
			"[N,T,2] gives o[a.N,a.T,2] {2,8,2}, w[a.N,a.T,2] {2,4,2}",
		},
		{
			"a step names alike what differs", before + next, "o: c.y",
			[]string{double, chain},
			"[N,T,2] gives o[N,?,2] {2,2,2}",
		},
		{
			"and gives it", before + next, "o: c.y, p: b.z",
			[]string{double, chain},
			"[N,T,2] gives o[N,?,2] {2,2,2}, p[N,?,2] {2,2,2}",
		},
		{
			"only the next step knows how many sizes there are", before + next, "o: c.y, p: b.z",
			[]string{"opset 17; x[N,T,2]; z = Reshape(x, Compress(Shape(x), Greater(Shape(x), [0]))); z", chain},
			"[N,T,2] gives o[?,?,2] {2,1,2}, p[?,?,2] {2,1,2}",
		},
	} {
		t.Run(tt.about, func(t *testing.T) {
			merged, err := merge(t, "steps:\n"+tt.steps+"outputs: {"+tt.outputs+"}\n", tt.models...)
			if err != nil {
				t.Fatal(err)
			}
			model, err := proto.Marshal(merged)
			if err != nil {
				t.Fatal(err)
			}
			s := open(t, model)
			var gives []string
			for i, out := range run(t, s, weftest.Floats(tensor.Shape{2, 1, 2}, 1, 2, 3, 4)) {
				spec := s.Signature().Outputs[i]
				gives = append(gives, fmt.Sprintf("%s%s {%s}", spec.Name, named(&spec), strings.Trim(out.Shape.String(), "[]")))
			}
			if got := named(&s.Signature().Inputs[0]) + " gives " + strings.Join(gives, ", "); got != tt.want {
				t.Errorf("it takes %s\nwant     %s", got, tt.want)
			}
		})
	}
}

// TestSizesInFunctions has a model whose function says of a graph within that it gives [N,T,2], and a model before it
// that calls shorter values so.
func TestSizesInFunctions(t *testing.T) {
	var models []*onnx.ModelProto
	for _, text := range []string{
		"opset 17; x[N,T,2]; h = Add(Neg(x), 1.0); z = Concat{axis=1}(h, h); z",
		"opset 17; x[N,T,2]; y = Sub(Mul(Add(Neg(Relu(x)), 1.0), 2.0), 1.0); y",
		"opset 17; x[N,T,2]; y = Relu(Neg(x)); y",
	} {
		s, err := sketch.Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		if len(models) == 1 {
			s.Graph.Within("If").Within("function")
		}
		m := &onnx.ModelProto{}
		if err := proto.Unmarshal(s.Graph.Marshal(), m); err != nil {
			t.Fatal(err)
		}
		models = append(models, m)
	}
	for _, n := range models[1].GetFunctions()[0].GetNode() {
		for _, a := range n.GetAttribute() {
			for _, out := range a.GetG().GetOutput() {
				out.Type = models[1].GetGraph().GetInput()[0].GetType()
			}
		}
	}
	merged, err := mergeModels(t, "steps:\n- {name: b, model: b, version: 1, inputs: {x: x}}\n"+
		"- {name: a, model: a, version: 1, inputs: {x: b.z}}\n"+
		"- {name: c, model: c, version: 1, inputs: {x: a.y.If.function}}\noutputs: {o: c.y}\n", models...)
	if err != nil {
		t.Fatal(err)
	}
	model, err := proto.Marshal(merged)
	if err != nil {
		t.Fatal(err)
	}
	got := run(t, open(t, model), weftest.Floats(tensor.Shape{2, 1, 2}, 1, 2, 3, 4))[0]
	if !slices.Equal(got.Shape, tensor.Shape{2, 2, 2}) {
		t.Errorf("it gives %v", got.Shape)
	}
}

// named is a shape with the names of its sizes.
func named(s *tensor.Spec) string {
	dims := make([]string, len(s.Shape))
	for i, n := range s.Shape {
		switch {
		case n != tensor.Unknown:
			dims[i] = strconv.FormatInt(n, 10)
		case s.DimNames != nil && s.DimNames[i] != "":
			dims[i] = s.DimNames[i]
		default:
			dims[i] = "?"
		}
	}
	return "[" + strings.Join(dims, ",") + "]"
}

// TestFaults holds what is said of pipelines whose models do not fit. Each is a paragraph of testdata/faults.txt: the
// sketches of the models, pipeline.yaml, and the faults.
func TestFaults(t *testing.T) {
	const golden = "testdata/faults.txt"
	text, err := os.ReadFile(filepath.FromSlash(golden))
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	for i, paragraph := range strings.Split(string(text), "\n\n") {
		if i > 0 {
			out.WriteString("\n\n")
		}
		var sketches, yaml []string
		for line := range strings.Lines(paragraph) {
			switch line = strings.TrimSuffix(line, "\n"); {
			case strings.HasPrefix(line, "opset "):
				sketches = append(sketches, line)
			case !strings.HasPrefix(line, "! "):
				yaml = append(yaml, line)
			}
		}
		_, err := merge(t, strings.Join(yaml, "\n"), sketches...)
		out.WriteString(strings.Join(slices.Concat(sketches, yaml), "\n"))
		for line := range strings.Lines(fmt.Sprint(err)) {
			out.WriteString("\n! " + strings.TrimSuffix(line, "\n"))
		}
	}
	if *rewrite {
		if err := os.WriteFile(golden, []byte(out.String()), 0o600); err != nil {
			t.Fatal(err)
		}
		return
	}
	if out.String() != string(text) {
		t.Errorf("%s differs (write it with -rewrite); now:\n%s", golden, out.String())
	}
}
