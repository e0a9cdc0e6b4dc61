package structure_test

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weftserve/weft/internal/onnxgraph/sketch"
	"github.com/weftserve/weft/runtime/ort"
	"github.com/weftserve/weft/runtime/proof/structure"
	"github.com/weftserve/weft/runtime/tensor"
)

// declaredAxes has the rows of a model along dimension 0, or the first open one where dimension 0 is fixed to more than
// 1; a tensor without open dimensions or with a fixed first one has none.
func declaredAxes(sig *tensor.Signature) map[string]int {
	axes := map[string]int{}
	for _, in := range sig.Inputs {
		if at := slices.IndexFunc(in.Shape, func(d int64) bool { return d < 0 }); at >= 0 &&
			(at == 0 || in.Shape[0] > 1) {
			axes[in.Name] = at
		} else if len(in.Shape) > 0 && in.Shape[0] == 1 {
			axes[in.Name] = 0 // a batch that is fixed to 1: as if it were open
		}
	}
	return axes
}

func verdictOf(t *testing.T, path string) structure.Verdict {
	t.Helper()
	session, err := ort.Open(path, ort.Options{})
	if err != nil {
		t.Skipf("ONNX Runtime refuses it: %v", err) // as on a machine without the locale that it asks for
	}
	defer session.Close()
	m, err := structure.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	from := time.Now()
	v := m.Prove(declaredAxes(session.Signature()))
	t.Logf("%s: %d nodes, %.2f ms: proven %v %v %s %s", path, v.Nodes, time.Since(from).Seconds()*1e3, v.Proven,
		v.Outputs, v.Operator, v.Reason)
	return v
}

// Policies are this server's purpose: each one that comes with it is proven.
func TestExampleModels(t *testing.T) {
	initialise(t)
	files, err := filepath.Glob("../../../examples/models/*/*/model.onnx")
	if err != nil || len(files) == 0 {
		t.Fatalf("no models: %v", err)
	}
	for _, file := range files {
		v := verdictOf(t, file)
		if delete(v.Outputs, "hn"); !v.Proven || !maps.Equal(v.Outputs, map[string]int{"action": 0}) {
			t.Errorf("%s: %+v", file, v)
		}
	}
}

// realModels says along which dimension the outputs of each have their rows.
var realModels = map[string]map[string]int{
	"go1_joystick_dyn/1": {"continuous_actions": 0},
	"g1_joystick_dyn/1":  {"continuous_actions": 0},
	"g1_joystick_fp16/1": {"continuous_actions": 0},
	"g1_kick_dyn/1":      {"action": 0},
	"g1_kick_dyn/2":      {"action": 0},
	"g1_kick_dyn/3":      {"action": 0},
	"squeezenet_fp16/1":  {"softmaxout_1": 0},
	"ppocr_cls/1":        {"softmax_0.tmp_0": 0},
	"silero_vad/1":       {"output": 0, "stateN": 1},
	"titanic_logreg/1":   {"label": 0, "probabilities": 0},
	"tiny_gpt2_kv/1": {
		"logits": 0, "present_0": 1, "present_1": 1, "present_2": 1, "present_3": 1,
		"present_4": 1,
	},
	"text_encoder_rand/1": {"last_hidden_state": 0},
}

// unprovenModels says which of the small ones are not proven, and the obstacle.
var unprovenModels = map[string]string{
	"edge/fragile.onnx": "Add", "edge/yalue_example_multitype.onnx": "Gather",
	"edge/yalue_example_strings.onnx": "StringNormalizer",
	"tfidf_strings/1/model.onnx":      "StringNormalizer",
}

func TestRealModels(t *testing.T) {
	dir := os.Getenv("WEFT_TEST_MODELS")
	if dir == "" {
		t.Skip("WEFT_TEST_MODELS does not name a folder of models with reference answers")
	}
	initialise(t)
	for name, want := range realModels {
		t.Run(name, func(t *testing.T) {
			if v := verdictOf(t, filepath.Join(dir, name, "model.onnx")); !v.Proven || !maps.Equal(v.Outputs, want) {
				t.Errorf("%+v, want %v", v, want)
			}
		})
	}
	files, _ := filepath.Glob(filepath.Join(dir, "edge", "*.onnx"))
	for _, file := range append(files, filepath.Join(dir, "edge/external_data/model.onnx"),
		filepath.Join(dir, "tfidf_strings/1/model.onnx")) {
		name, _ := filepath.Rel(dir, file)
		t.Run(name, func(t *testing.T) {
			v := verdictOf(t, file)
			operator, unproven := unprovenModels[name]
			if got, _, _ := strings.Cut(v.Operator, " "); v.Proven == unproven || got != operator {
				t.Errorf("%+v", v)
			}
		})
	}
}

// A model of 200 nodes, half of them the arithmetic of shapes.
func BenchmarkProve200Nodes(b *testing.B) {
	var text strings.Builder
	text.WriteString("x[N,T,8]; ")
	last := "x"
	for i := range 14 { // of 14 nodes each, and some at the end
		name := "v" + string(rune('a'+i))
		text.WriteString(name + " = LayerNormalization(Add(" + last + ", Reshape(Gelu(MatMul(Reshape(" + last +
			", [-1,8]), <8,8>)), " +
			"Concat{axis=0}(Gather(Shape(" + last + "), [0]), Mul(Gather(Shape(" + last + "), [1]), 1), [8]))), <8>); ")
		last = name
	}
	s, err := sketch.Parse("opset 20; " + text.String() + "Softmax(" + last + "), Relu(" + last + "), Tanh(" + last +
		"), Neg(" + last + ")")
	if err != nil {
		b.Fatal(err)
	}
	m := readModel(b, s.Graph.Marshal())
	var v structure.Verdict
	for b.Loop() {
		v = m.Prove(s.Axes)
	}
	if !v.Proven {
		b.Fatalf("%+v", v)
	}
	b.ReportMetric(float64(v.Nodes), "nodes")
}
