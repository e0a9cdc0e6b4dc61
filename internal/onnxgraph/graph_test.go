package onnxgraph_test

import (
	"bytes"
	"os"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/encoding/prototext"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/testing/protocmp"

	"github.com/weftserve/weft/internal/onnxgraph"
	"github.com/weftserve/weft/proto/gen/onnx"
)

// modelOf reads a model file.
func modelOf(t *testing.T, file []byte) *onnx.ModelProto {
	t.Helper()
	m := &onnx.ModelProto{}
	if err := proto.Unmarshal(file, m); err != nil {
		t.Fatal(err)
	}
	return m
}

func TestMarshal(t *testing.T) {
	g := onnxgraph.New("tiny").Opset("", 13).Opset("com.microsoft", 1).IRVersion(7).Metadata("owner", "me")
	g.Input("x", onnxgraph.Float16, "batch", 3, int64(4), nil).Output("y", onnxgraph.Bool)
	g.DomainNode("com.microsoft", "Mystery", []string{"a", "", "b"}, []string{"y"},
		onnxgraph.IntsAttr("axes", 1, -1), onnxgraph.FloatAttr("alpha", 0.5), onnxgraph.StringAttr("mode", "up"),
		onnxgraph.IntAttr("to", 0), onnxgraph.FloatsAttr("fs", 0.5, 1), onnxgraph.StringsAttr("ss", "a", "b"),
		onnxgraph.TensorAttr("value", onnxgraph.Uint8, []int64{2}, []byte{7, 8}))
	body := onnxgraph.New("body").UnshapedInput("i", onnxgraph.Int64).AnyOutput("o")
	g.Node("Loop", nil, nil, onnxgraph.GraphAttr("body", body.Node("Identity", []string{"i"}, []string{"o"})))
	g.InitFloats("f", []int64{2}, 1, -2).InitInt64s("i", []int64{1}, -1).InitStrings("s", []int64{2}, "", "é")
	g.Init("none", onnxgraph.Int8, []int64{0}, nil)
	g.ExternalInit("e", onnxgraph.Float, []int64{3, 5}, "weights.bin", 64, 60)
	soft := onnxgraph.New("").Opset("", 18).Node("Elu", []string{"a"}, []string{"b"},
		onnxgraph.RefAttr("alpha", "slope", onnx.AttributeProto_FLOAT))
	g.Function("mine", "Soft", soft, []string{"a", "c"}, []string{"b", "a"}, []string{"slope", "other"})

	text, err := os.ReadFile("testdata/model.txtpb")
	if err != nil {
		t.Fatal(err)
	}
	want := &onnx.ModelProto{}
	if err := prototext.Unmarshal(text, want); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, modelOf(t, g.Marshal()), protocmp.Transform()); diff != "" {
		t.Errorf("model (-want +got):\n%s", diff)
	}
}

// TestWhatCannotBeBuiltPanics: a dimension of no known kind, and weights that are not those of a layer.
func TestWhatCannotBeBuiltPanics(t *testing.T) {
	for name, build := range map[string]func(){
		"a float dim": func() { onnxgraph.New("g").Input("x", onnxgraph.Float, 1.5) },
		"three weights for a 2×2 layer": func() {
			onnxgraph.Dense("p", []onnxgraph.Layer{{In: 2, Out: 2, Weights: make([]float32, 3), Bias: make([]float32, 2)}})
		},
	} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%s did not panic", name)
				}
			}()
			build()
		}()
	}
}

func TestMLP(t *testing.T) {
	sizes := []int{48, 256, 128, 12}
	file := onnxgraph.MLP("policy", sizes, 1, "Elu", "")
	g := modelOf(t, file).GetGraph()
	var ops []string
	for _, n := range g.GetNode() {
		ops = append(ops, n.GetOpType())
	}
	if diff := cmp.Diff([]string{"Gemm", "Elu", "Gemm", "Elu", "Gemm"}, ops); diff != "" {
		t.Errorf("operators (-want +got):\n%s", diff)
	}
	var elements []int
	for _, weights := range g.GetInitializer() {
		elements = append(elements, len(weights.GetRawData())/4)
	}
	if diff := cmp.Diff([]int{48 * 256, 256, 256 * 128, 128, 128 * 12, 12}, elements); diff != "" {
		t.Errorf("elements of weights and biases (-want +got):\n%s", diff)
	}
	in, out := g.GetInput()[0], g.GetOutput()[0]
	if in.GetName() != "observation" || out.GetName() != "action" || g.GetNode()[4].GetOutput()[0] != "action" ||
		in.GetType().GetTensorType().GetShape().GetDim()[0].GetDimParam() != "batch" {
		t.Errorf("from %v to %v", in, out)
	}
	if !bytes.Equal(file, onnxgraph.MLP("policy", sizes, 1, "Elu", "")) {
		t.Error("the same seed gave other bytes")
	}
	if bytes.Equal(file, onnxgraph.MLP("policy", sizes, 2, "Elu", "")) {
		t.Error("another seed gave the same bytes")
	}
}
