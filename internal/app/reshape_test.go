package app

import (
	"context"
	"encoding/binary"
	"errors"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/weftserve/weft/internal/onnxgraph"
	"github.com/weftserve/weft/internal/ortlib"
	"github.com/weftserve/weft/internal/weftest"
	"github.com/weftserve/weft/proto/gen/inference"
	"github.com/weftserve/weft/runtime/tensor"
)

// reshaping is the settings of a model that gives back rows of 2x2, which its clients see as rows of 4 and of 1x4.
const reshaping = `
max_batch_size: 8
input { name: "x" data_type: TYPE_FP32 dims: 4 reshape { shape: [ 2, 2 ] } }
output { name: "y" data_type: TYPE_FP32 dims: [ 1, 4 ] reshape { shape: [ 2, 2 ] } label_filename: "labels.txt" }
`

// TestReshapeAndLabels: clients see the reshapes and labels of a config.pbtxt as Triton's clients do.
func TestReshapeAndLabels(t *testing.T) {
	if _, err := ortlib.Find(); err != nil {
		t.Skip(err)
	}
	g := onnxgraph.New("g").Input("x", onnxgraph.Float, "n", 2, 2).Output("y", onnxgraph.Float, "n", 2, 2)
	g.Node("Identity", []string{"x"}, []string{"y"})
	repository := t.TempDir()
	dir := filepath.Join(repository, "m")
	err := errors.Join(os.MkdirAll(filepath.Join(dir, "1"), 0o755),
		os.WriteFile(filepath.Join(dir, "1", "model.onnx"), g.Marshal(), 0o600),
		os.WriteFile(filepath.Join(dir, "config.pbtxt"), []byte(reshaping), 0o600),
		os.WriteFile(filepath.Join(dir, "labels.txt"), []byte("left\r\nright\n"), 0o600))
	if err != nil {
		t.Fatal(err)
	}
	r := serveFrom(t, repository, nil)
	r.awaitReady(t)
	ctx, cancel := context.WithTimeout(t.Context(), weftest.Patience)
	defer cancel()
	client := inference.NewGRPCInferenceServiceClient(r.conn)

	about, err := client.ModelMetadata(ctx, &inference.ModelMetadataRequest{Name: "m"})
	if err != nil || !slices.Equal(about.GetInputs()[0].GetShape(), []int64{-1, 4}) ||
		!slices.Equal(about.GetOutputs()[0].GetShape(), []int64{-1, 1, 4}) {
		t.Errorf("%v, %v", about, err)
	}
	config, err := client.ModelConfig(ctx, &inference.ModelConfigRequest{Name: "m"})
	if in, out := config.GetConfig().GetInput()[0], config.GetConfig().GetOutput()[0]; err != nil ||
		!slices.Equal(in.GetDims(), []int64{4}) || !slices.Equal(in.GetReshape().GetShape(), []int64{2, 2}) ||
		!slices.Equal(out.GetDims(), []int64{1, 4}) || out.GetLabelFilename() != "labels.txt" {
		t.Errorf("%v, %v", config, err)
	}

	values := []float32{0, 3, 1, 2, -1, -2, -3, -4}
	var raw []byte
	for _, v := range values {
		raw = binary.LittleEndian.AppendUint32(raw, math.Float32bits(v))
	}
	ask := func(shape []int64, classes int64) (*inference.ModelInferResponse, error) {
		q := &inference.ModelInferRequest{
			ModelName: "m", RawInputContents: [][]byte{raw},
			Inputs: []*inference.ModelInferRequest_InferInputTensor{{Name: "x", Datatype: "FP32", Shape: shape}},
		}
		if classes > 0 {
			q.Outputs = []*inference.ModelInferRequest_InferRequestedOutputTensor{{
				Name: "y", Parameters: map[string]*inference.InferParameter{
					"classification": {ParameterChoice: &inference.InferParameter_Int64Param{Int64Param: classes}},
				},
			}}
		}
		return client.ModelInfer(ctx, q)
	}
	answer, err := ask([]int64{2, 4}, 0)
	if err != nil || !slices.Equal(answer.GetOutputs()[0].GetShape(), []int64{2, 1, 4}) ||
		!slices.Equal(answer.GetRawOutputContents()[0], raw) {
		t.Errorf("%v, %v", answer, err)
	}
	if _, err := ask([]int64{2, 2, 2}, 0); err == nil ||
		!strings.Contains(err.Error(), `inputs["x"].shape: expected [?,4], got [2,2,2]`) {
		t.Errorf("the model's own shape: %v", err)
	}
	answer, err = ask([]int64{2, 4}, 2)
	if err != nil {
		t.Fatal(err)
	}
	var texts []string
	for rest := answer.GetRawOutputContents()[0]; len(rest) > 0; {
		var text []byte
		var whole bool
		if text, rest, whole = tensor.NextString(rest); !whole {
			t.Fatal("a text is cut short")
		}
		texts = append(texts, string(text))
	}
	want := []string{"3.000000:1:right", "2.000000:3", "-1.000000:0:left", "-2.000000:1:right"} // two have a label
	if diff := cmp.Diff(want, texts); diff != "" {
		t.Error(diff)
	}
}
