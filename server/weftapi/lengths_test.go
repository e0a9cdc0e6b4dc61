package weftapi_test

import (
	"testing"

	"google.golang.org/grpc/codes"

	weftv1 "github.com/weftserve/weft/proto/gen/weft/v1"
	"github.com/weftserve/weft/runtime/catalog"
	"github.com/weftserve/weft/runtime/tensor"
	"github.com/weftserve/weft/server"
	"github.com/weftserve/weft/server/servertest"
)

// TestPredictRefusesLengths has a model whose ids and mask are padded to 4 or 8 tokens.
func TestPredictRefusesLengths(t *testing.T) {
	tokens := &tensor.Variable{Dim: 1, Most: 8, Buckets: []int64{4, 8}, Pad: make([]byte, 8)}
	shape := tensor.Shape{tensor.Unknown, tensor.Unknown}
	version := servertest.PolicyVersion(1, catalog.Ready)
	version.Signature = &tensor.Signature{
		Inputs: []tensor.Spec{
			{Name: "ids", DType: tensor.Int64, Shape: shape, Variable: tokens},
			{Name: "mask", DType: tensor.Int64, Shape: shape, Variable: tokens},
		},
		Outputs: servertest.PolicySignature.Outputs,
	}
	h := servertest.New(t, server.Config{})
	h.Current.Store(servertest.SnapshotOf(2, &catalog.Model{Name: "policy", Versions: []*catalog.Version{version}}))
	request := func(ids, mask int64) *weftv1.PredictRequest {
		in := func(n int64) *weftv1.Tensor {
			return &weftv1.Tensor{Dtype: weftv1.DataType_DATA_TYPE_INT64, Shape: []int64{1, n}, Raw: make([]byte, 8*n)}
		}
		return &weftv1.PredictRequest{
			Model:  &weftv1.ModelSpec{Name: "policy"},
			Inputs: map[string]*weftv1.Tensor{"ids": in(ids), "mask": in(mask)},
		}
	}
	for _, test := range []struct {
		ids, mask int64
		want      string
	}{
		{200, 200, `inputs["ids"].shape: expected 1 to 8 elements in dimension 1 (8 is the largest bucket), got 200 in [1,200]`},
		{0, 0, `inputs["ids"].shape: expected 1 to 8 elements in dimension 1 (8 is the largest bucket), got 0 in [1,0]`},
		{5, 6, `inputs["mask"].shape: expected 5 elements in dimension 1, as input "ids" brings, got 6 in [1,6]`},
	} {
		_, err := h.Predictions.Predict(t.Context(), request(test.ids, test.mask))
		servertest.WantCode(t, err, codes.InvalidArgument, test.want)
	}
}
