package main

import (
	"github.com/weftserve/weft/internal/onnxgraph"
	weftv1 "github.com/weftserve/weft/proto/gen/weft/v1"
	"github.com/weftserve/weft/tools/lab/harness"
)

const (
	policyName  = "policy"
	policyInput = onnxgraph.MLPInput
	policyWidth = 48
	largeName   = "large"
	largeInput  = "x"
	largeWidth  = 1 << 20 // numbers in an answer, of 4 bytes each
)

// alone keeps the proof and the batches of large answers from taking memory that attacks could hide in.
const alone = "batching: {mode: \"off\"}\n"

// writeModels writes a repository: of a small policy, and of a model that answers a number with 4 MB.
func writeModels(repository string) error {
	large := onnxgraph.New(largeName).
		Input(largeInput, onnxgraph.Float, onnxgraph.BatchDim, 1).
		InitInt64s("times", []int64{2}, 1, largeWidth).
		Node("Tile", []string{largeInput, "times"}, []string{"y"}).
		Output("y", onnxgraph.Float, onnxgraph.BatchDim, largeWidth).Marshal()
	policy := onnxgraph.MLP(policyName, []int{policyWidth, 256, 128, 12}, 1, "Elu", "")
	return harness.WriteAll(repository, map[string][]byte{
		policyName + "/1/model.onnx": policy, largeName + "/1/model.onnx": large,
		largeName + "/model.yaml": []byte(alone),
	})
}

func policyRequest() *weftv1.PredictRequest { return request(policyName, policyInput, policyWidth) }

func largeRequest() *weftv1.PredictRequest { return request(largeName, largeInput, 1) }

func request(model, input string, width int64) *weftv1.PredictRequest {
	return &weftv1.PredictRequest{
		Model: &weftv1.ModelSpec{Name: model},
		Inputs: map[string]*weftv1.Tensor{input: {
			Dtype: weftv1.DataType_DATA_TYPE_FP32, Shape: []int64{1, width}, Raw: make([]byte, 4*width),
		}},
		OutputEncoding: weftv1.OutputEncoding_OUTPUT_ENCODING_RAW,
	}
}
