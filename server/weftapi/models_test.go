package weftapi_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/testing/protocmp"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	weftv1 "github.com/weftserve/weft/proto/gen/weft/v1"
	"github.com/weftserve/weft/runtime/catalog"
	"github.com/weftserve/weft/server"
	"github.com/weftserve/weft/server/servertest"
)

func TestGetModelMetadata(t *testing.T) {
	h := servertest.New(t, server.Config{})
	got, err := h.Predictions.GetModelMetadata(t.Context(), &weftv1.GetModelMetadataRequest{
		Model: &weftv1.ModelSpec{Name: "policy", VersionChoice: &weftv1.ModelSpec_Label{Label: "stable"}},
	})
	if err != nil {
		t.Fatal(err)
	}
	want := &weftv1.GetModelMetadataResponse{
		Model: &weftv1.ModelSpec{Name: "policy", VersionChoice: &weftv1.ModelSpec_Version{Version: 1}},
		Signature: &weftv1.Signature{
			Inputs: []*weftv1.TensorSpec{{
				Name: "observation", Dtype: weftv1.DataType_DATA_TYPE_FP32, Shape: []int64{-1, 4},
				DimNames: []string{"batch", ""}, BatchDim: new(int32(0)),
			}},
			Outputs: []*weftv1.TensorSpec{
				{Name: "action", Dtype: weftv1.DataType_DATA_TYPE_FP32, Shape: []int64{-1, 2}, BatchDim: new(int32(0))},
				{Name: "value", Dtype: weftv1.DataType_DATA_TYPE_FP32, Shape: []int64{-1}, BatchDim: new(int32(0))},
			},
			Notes: []string{"output probabilities is a map and is left out"},
		},
		Batching: &weftv1.BatchingFacts{
			Batched: true, Reason: "proven", MaxDifference: 1e-7, MaxBatchSize: 64, AllowedBatchSizes: []int32{8, 64},
			MaxRequestRows: 100, MaxQueue: 1000,
			Proof: weftv1.BatchingProof_BATCHING_PROOF_EXAMPLES, Obstacle: "Loop: why",
		},
		ReadyVersions: []int64{1, 2},
		Labels:        map[string]int64{"stable": 1},
		MaxLatency:    durationpb.New(10 * time.Second),
	}
	if diff := cmp.Diff(want, got, protocmp.Transform()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	_, err = h.Predictions.GetModelMetadata(t.Context(), &weftv1.GetModelMetadataRequest{})
	servertest.WantCode(t, err, codes.InvalidArgument, "model.name")
	_, err = h.Predictions.GetModelMetadata(t.Context(), &weftv1.GetModelMetadataRequest{
		Model: &weftv1.ModelSpec{Name: "policy", VersionChoice: &weftv1.ModelSpec_Version{Version: 3}},
	})
	servertest.WantCode(t, err, codes.Unavailable, "loading")
}

func TestModelsAreShown(t *testing.T) {
	h := servertest.New(t, server.Config{})
	s := servertest.PolicySnapshot()
	s.Models = s.Models.With("torn", &catalog.Model{Name: "torn", Cause: "model.yaml \xff"})
	first := s.Model("policy").Versions[0]
	first.LoadedAt = time.Unix(1700000000, 0)
	first.Digest = "a1b2"
	first.Replicas = []catalog.Replica{
		{Device: "cpu", Provider: "cpu", Scheduler: 1},
		{Device: "cuda:0", Provider: "cuda", Scheduler: 9},
	}
	died := time.Unix(1700000001, 0)
	first.Live = func() catalog.Live {
		return catalog.Live{Memory: []int64{-1, 1 << 30}, Restarting: []bool{false, true}, Crashes: catalog.Crashes{
			Deaths: 3, DeathAt: died, Death: "SIGFPE: at /usr/lib/libonnxruntime.so",
			Proven: 2, ProvenAt: died, Proof: "SIGFPE", Remembered: 1,
		}}
	}
	s.Model("policy").Versions[1].Live = func() catalog.Live {
		return catalog.Live{Crashes: catalog.Crashes{Remembered: 4}} // from before it was loaded again
	}
	began := time.Unix(1700000002, 0)
	s.Model("policy").Versions[2].Loading = func() catalog.LoadProgress {
		return catalog.LoadProgress{Stage: catalog.StageProving, Done: 12, Of: 40, Since: began}
	}
	first.Loading = func() catalog.LoadProgress { return catalog.LoadProgress{} } // its changed files wait
	first.Stalled = "its process on cuda:0 died \xff"
	first.Scarce = "2 of 3 replicas \xff"
	h.Current.Store(s)
	list, err := h.Catalog.ListModels(t.Context(), &weftv1.ListModelsRequest{})
	if err != nil {
		t.Fatal(err)
	}
	want := []*weftv1.Model{
		{
			Name:   "policy",
			Labels: map[string]int64{"stable": 1},
			Versions: []*weftv1.ModelVersion{
				{
					Version: 1, State: weftv1.VersionState_VERSION_STATE_READY, Scarcity: "2 of 3 replicas �",
					Replicas: []*weftv1.ModelReplica{
						{Device: "cpu", Provider: "cpu"},
						{Device: "cuda:0", Provider: "cuda", DeviceMemoryBytes: 1 << 30, Restarting: true},
					},
					Stalled: "its process on cuda:0 died �",
					Loading: &weftv1.LoadProgress{Stage: weftv1.LoadStage_LOAD_STAGE_WAITING},
					Crashes: &weftv1.ModelCrashes{
						Deaths: 3, LatestDeathAt: timestamppb.New(died), LatestDeath: "SIGFPE: at .../libonnxruntime.so",
						Proven: 2, LatestProvenAt: timestamppb.New(died), LatestProven: "SIGFPE", RememberedRequests: 1,
					},
				},
				{
					Version: 2, State: weftv1.VersionState_VERSION_STATE_READY,
					Crashes: &weftv1.ModelCrashes{RememberedRequests: 4},
				},
				{
					Version: 3, State: weftv1.VersionState_VERSION_STATE_LOADING,
					Loading: &weftv1.LoadProgress{
						Stage: weftv1.LoadStage_LOAD_STAGE_PROVING, Done: 12, Total: 40, Since: timestamppb.New(began),
					},
				},
				{
					Version: 4, State: weftv1.VersionState_VERSION_STATE_FAILED,
					Failure: "model.onnx is not an ONNX file",
				},
			},
		},
		{Name: "torn", Failure: "model.yaml �"},
	}
	skeleton := []cmp.Option{
		protocmp.Transform(),
		protocmp.IgnoreFields(&weftv1.ModelVersion{}, "signature", "batching", "device", "provider", "weight",
			"max_latency", "loaded_at", "digest"),
	}
	if diff := cmp.Diff(want, list.GetModels(), skeleton...); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	got, err := h.Catalog.GetModel(t.Context(), &weftv1.GetModelRequest{Name: "policy"})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(list.GetModels()[0], got.GetModel(), protocmp.Transform()); diff != "" {
		t.Errorf("GetModel differs from ListModels:\n%s", diff)
	}
	ready, loading := got.GetModel().GetVersions()[0], got.GetModel().GetVersions()[2]
	if ready.GetDevice() != "cpu" || ready.GetProvider() != "cpu" || ready.GetWeight() != 2 ||
		ready.GetLoadedAt().AsTime().Unix() != 1700000000 || ready.GetDigest() != "a1b2" ||
		ready.GetMaxLatency().AsDuration() != 10*time.Second || ready.GetTargetLatency() != nil ||
		ready.GetSignature() == nil || ready.GetBatching() == nil {
		t.Errorf("version 1 is %v", ready)
	}
	if loading.GetSignature() != nil || loading.GetBatching() != nil || loading.GetLoadedAt() != nil {
		t.Errorf("version 3 is %v", loading)
	}
	_, err = h.Catalog.GetModel(t.Context(), &weftv1.GetModelRequest{})
	servertest.WantCode(t, err, codes.InvalidArgument, "name: expected the name of a model")
	_, err = h.Catalog.GetModel(t.Context(), &weftv1.GetModelRequest{Name: "nope"})
	servertest.WantCode(t, err, codes.NotFound, `there is "policy", "torn"`)
}
