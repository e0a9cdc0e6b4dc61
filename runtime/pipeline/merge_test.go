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

// merge joins models that sketches describe, as a pipeline.yaml says.
func merge(t *testing.T, text string, sketches ...string) (*onnx.ModelProto, error) {
	t.Helper()
	p, err := modelrepo.ReadPipeline("pipeline.yaml", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	var models []*onnx.ModelProto
	for _, s := range sketches {
		m := &onnx.ModelProto{}
		if err := proto.Unmarshal(file(t, s), m); err != nil {
			t.Fatal(err)
		}
		models = append(models, m)
	}
	for i := range p.Steps {
		p.Steps[i].Of.Dir = p.Steps[i].Model
	}
	var merged *onnx.ModelProto
	err = p.Decode("pipeline.yaml", func() (faults config.Faults) {
		merged, faults = pipeline.Merge(p, models)
		return faults
	})
	return merged, err
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
