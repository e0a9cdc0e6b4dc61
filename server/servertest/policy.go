package servertest

import (
	"context"
	"encoding/binary"
	"math"
	"testing"
	"time"

	weftv1 "github.com/weftserve/weft/proto/gen/weft/v1"
	"github.com/weftserve/weft/runtime/catalog"
	"github.com/weftserve/weft/runtime/tensor"
	"github.com/weftserve/weft/sharedsched"
)

// PolicySignature takes observations of four numbers and gives an action of two, the first two, and a value, the sum of
// all four.
var PolicySignature = &tensor.Signature{
	Inputs: []tensor.Spec{
		{
			Name: "observation", DType: tensor.Float32, Shape: tensor.Shape{tensor.Unknown, 4},
			DimNames: []string{"batch", ""},
			BatchDim: 0,
		},
	},
	Outputs: []tensor.Spec{
		{Name: "action", DType: tensor.Float32, Shape: tensor.Shape{tensor.Unknown, 2}, BatchDim: 0},
		{Name: "value", DType: tensor.Float32, Shape: tensor.Shape{tensor.Unknown}, BatchDim: 0},
	},
	Notes: []string{"output probabilities is a map and is left out"},
}

// PolicyVersion returns a version of policy in some state. One that is loading or has failed has no signature yet.
func PolicyVersion(number int64, state catalog.State) *catalog.Version {
	v := &catalog.Version{
		Model: "policy", Number: number, State: state, Signature: PolicySignature, Device: "cpu", Provider: "cpu",
		Weight: 2,
		Batching: catalog.Batching{
			Batched: true, Reason: "proven", Proof: catalog.ProofExamples, Obstacle: "Loop: why",
			MaxDifference: 1e-7, MaxBatchSize: 64, AllowedBatchSizes: []int{8, 64},
			MaxRequestRows: 100, MaxQueue: 1000,
		},
		MaxLatency: 10 * time.Second,
	}
	switch state {
	case catalog.Failed:
		v.Cause = "model.onnx is not an ONNX file"
		fallthrough
	case catalog.Loading:
		v.Signature, v.Batching = nil, catalog.Batching{}
	default:
	}
	return v
}

// SnapshotOf returns a snapshot of the models.
func SnapshotOf(revision uint64, models ...*catalog.Model) *catalog.Snapshot {
	return &catalog.Snapshot{Revision: revision, Models: catalog.ByName(models...)}
}

// PolicySnapshot returns one in which versions 1 and 2 of policy are ready, 3 is loading, and 4 has failed.
func PolicySnapshot() *catalog.Snapshot {
	return SnapshotOf(1, &catalog.Model{
		Name: "policy",
		Versions: []*catalog.Version{
			PolicyVersion(1, catalog.Ready), PolicyVersion(2, catalog.Ready),
			PolicyVersion(3, catalog.Loading), PolicyVersion(4, catalog.Failed),
		},
		Labels: map[string]int64{"stable": 1},
	})
}

// RunPolicy is the model: it runs a call as Models.Predict does, at once. Its Outcome is the same for each call, and
// has another number in each field.
func RunPolicy(_ context.Context, call *catalog.Call) error {
	obs := call.Inputs[0].Clone().Data
	action, value := make([]byte, 0, call.Rows*8), make([]byte, 0, call.Rows*4)
	for row := range call.Rows {
		var sum float32
		for i := range 4 {
			sum += math.Float32frombits(binary.LittleEndian.Uint32(obs[16*row+4*i:]))
		}
		action = append(action, obs[16*row:16*row+8]...)
		value = binary.LittleEndian.AppendUint32(value, math.Float32bits(sum))
	}
	all := []tensor.Tensor{
		{DType: tensor.Float32, Shape: tensor.Shape{int64(call.Rows), 2}, Data: action},
		{DType: tensor.Float32, Shape: tensor.Shape{int64(call.Rows)}, Data: value},
	}
	call.Results = all
	if call.Wanted != nil {
		call.Results = nil
		for _, i := range call.Wanted {
			call.Results = append(call.Results, all[i])
		}
	}
	call.Outcome = sharedsched.Outcome{
		Queue: time.Millisecond, Compute: 2 * time.Millisecond, DeviceTime: 3 * time.Millisecond, Device: "cpu",
		Reason: sharedsched.FlushFull, BatchRequests: 4, BatchRows: 5, PaddedRows: 6, Executions: 7,
	}
	return nil
}

// Observation is a request with typed values, of a row for each four of them; without values it has one row.
func Observation(id string, values ...float32) *weftv1.PredictRequest {
	if values == nil {
		values = []float32{1, 2, 3, 4}
	}
	return &weftv1.PredictRequest{
		Model:     &weftv1.ModelSpec{Name: "policy"},
		RequestId: id,
		Inputs: map[string]*weftv1.Tensor{"observation": {
			Dtype: weftv1.DataType_DATA_TYPE_FP32, Shape: []int64{int64(len(values) / 4), 4}, FloatValues: values,
		}},
	}
}

// Divide gives the policy traffic, in a snapshot that takes the place of the one before.
func (h *House) Divide(t *catalog.Traffic) {
	s := PolicySnapshot()
	s.Revision = 2
	s.Model("policy").Traffic = t
	h.Current.Store(s)
}

// Ask sends one observation in an episode.
func (h *House) Ask(t *testing.T, episode string) (*weftv1.PredictResponse, error) {
	t.Helper()
	q := Observation("first of "+episode, 0, 0, 0, 0)
	q.EpisodeId = episode
	return h.Predictions.Predict(t.Context(), q)
}
