package server_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"google.golang.org/grpc/codes"
	healthgrpc "google.golang.org/grpc/health/grpc_health_v1"
	reflectiongrpc "google.golang.org/grpc/reflection/grpc_reflection_v1"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/testing/protocmp"
	"google.golang.org/protobuf/types/known/durationpb"

	weftv1 "github.com/weftserve/weft/proto/gen/weft/v1"
	"github.com/weftserve/weft/runtime/catalog"
	"github.com/weftserve/weft/server"
)

// statuses returns what health says of the server as a whole and of each named model.
func (h *house) statuses(t *testing.T, names ...string) map[string]string {
	t.Helper()
	client := healthgrpc.NewHealthClient(h.conn)
	got := make(map[string]string)
	for _, name := range append(names, "") {
		resp, err := client.Check(t.Context(), &healthgrpc.HealthCheckRequest{Service: name})
		if err != nil {
			got[name] = status.Code(err).String()
			continue
		}
		got[name] = resp.GetStatus().String()
	}
	return got
}

func TestHealthFollowsModels(t *testing.T) {
	h := newHouse(t, server.Config{}, server.Transport{})
	model := func(name string, states ...catalog.State) *catalog.Model {
		m := &catalog.Model{Name: name}
		for i, s := range states {
			m.Versions = append(m.Versions, &catalog.Version{Model: name, Number: int64(i + 1), State: s})
		}
		return m
	}
	const serving, not, unknown = "SERVING", "NOT_SERVING", "SERVICE_UNKNOWN"
	for i, step := range []struct {
		what     string
		snapshot *catalog.Snapshot
		want     map[string]string
	}{
		{"nothing", snapshotOf(1), map[string]string{"": not, "a": "NotFound", "b": "NotFound"}},
		{"loading", snapshotOf(2, model("a", catalog.Loading), model("b", catalog.Loading)), map[string]string{"": not, "a": not, "b": not}},
		{"one is ready", snapshotOf(3, model("a", catalog.Ready), model("b", catalog.Loading)), map[string]string{"": not, "a": serving, "b": not}},
		{"the other failed", snapshotOf(4, model("a", catalog.Ready), model("b", catalog.Failed)), map[string]string{"": serving, "a": serving, "b": not}},
		{"next versions", snapshotOf(5, model("a", catalog.Ready, catalog.Loading), model("b", catalog.Failed, catalog.Loading)), map[string]string{"": serving, "a": serving, "b": not}},
		{"unloading", snapshotOf(6, model("a", catalog.Unloading), model("b", catalog.Ready)), map[string]string{"": serving, "a": not, "b": serving}},
		{"one is gone", snapshotOf(7, model("b", catalog.Ready)), map[string]string{"": serving, "a": unknown, "b": serving}},
		{"late news", snapshotOf(6, model("a", catalog.Ready), model("b", catalog.Failed)), map[string]string{"": serving, "a": unknown, "b": serving}},
	} {
		h.snapshot.Store(step.snapshot)
		h.ModelsChanged()
		if diff := cmp.Diff(step.want, h.statuses(t, "a", "b")); diff != "" {
			t.Errorf("step %d, %s (-want +got):\n%s", i, step.what, diff)
		}
	}
	if err := h.Drain(t.Context()); err != nil {
		t.Fatal(err)
	}
	h.ModelsChanged()
	if diff := cmp.Diff(map[string]string{"": not, "a": not, "b": not}, h.statuses(t, "a", "b")); diff != "" {
		t.Errorf("draining (-want +got):\n%s", diff)
	}
}

func TestDrainWaitsForRequests(t *testing.T) {
	h := newHouse(t, server.Config{}, server.Transport{})
	gate := newGated()
	h.run = gate.run
	answered := make(chan error, 1)
	go func() {
		_, err := h.predict.Predict(t.Context(), observation(""))
		answered <- err
	}()
	<-gate.entered
	late := errors.New("drained for too long")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(late)
	if err := h.Drain(ctx); !errors.Is(err, late) {
		t.Errorf("drain with a request in flight: %v", err)
	}
	_, err := h.predict.Predict(t.Context(), observation(""))
	wantCode(t, err, codes.Unavailable, "draining")
	stream := h.openStream(t)
	_, err = stream.rpc.Recv()
	wantCode(t, err, codes.Unavailable, "draining")

	close(gate.release)
	if err := h.Drain(t.Context()); err != nil {
		t.Errorf("second drain: %v", err)
	}
	if err := <-answered; err != nil {
		t.Errorf("the accepted request: %v", err)
	}
	if err := h.Drain(t.Context()); err != nil {
		t.Errorf("third drain: %v", err)
	}
}

func TestServerFull(t *testing.T) {
	h := newHouse(t, server.Config{MaxConcurrentRequests: 2}, server.Transport{})
	gate := newGated()
	h.run = gate.run
	answered := make(chan error, 1)
	go func() {
		_, err := h.predict.Predict(t.Context(), observation(""))
		answered <- err
	}()
	s := h.openStream(t)
	s.request("a")
	<-gate.entered
	<-gate.entered
	_, err := h.predict.Predict(t.Context(), observation(""))
	wantCode(t, err, codes.ResourceExhausted, "maximum of 2 concurrent requests")
	s.request("b")
	s.want("b: ResourceExhausted the server has its maximum of 2 concurrent requests; try again, or raise --max-concurrent-requests")
	h.SetMaxConcurrentRequests(1)
	_, err = h.predict.Predict(t.Context(), observation(""))
	wantCode(t, err, codes.ResourceExhausted, "maximum of 1 concurrent requests")
	h.SetMaxConcurrentRequests(3)
	s.request("c")
	<-gate.entered
	close(gate.release)
	s.want("a: version 2", "c: version 2")
	if err := <-answered; err != nil {
		t.Error(err)
	}
	s.end()
}

func TestServerHasRoomAgain(t *testing.T) {
	h := newHouse(t, server.Config{MaxConcurrentRequests: 1}, server.Transport{})
	for range 3 {
		if _, err := h.predict.Predict(t.Context(), observation("")); err != nil {
			t.Fatal(err)
		}
		bad := observation("")
		bad.Inputs = nil
		_, err := h.predict.Predict(t.Context(), bad)
		wantCode(t, err, codes.InvalidArgument, "observation")
	}
}

func TestMessageLimit(t *testing.T) {
	h := newHouse(t, server.Config{MaxMessageBytes: 1024}, server.Transport{})
	_, err := h.predict.Predict(t.Context(), observation("", make([]float32, 1024)...))
	wantCode(t, err, codes.ResourceExhausted, "--max-message-bytes")
}

// TestAnswerLimit: an answer as large as a message may be is sent, one of a byte more is an error, on a stream too.
func TestAnswerLimit(t *testing.T) {
	var size [2]int // of the answer to Predict, and on a stream
	probe := newHouse(t, server.Config{}, server.Transport{})
	resp, err := probe.predict.Predict(t.Context(), observation("a"))
	if err != nil {
		t.Fatal(err)
	}
	size[0] = proto.Size(resp)
	size[1] = proto.Size(&weftv1.PredictStreamResponse{RequestId: "a", Result: &weftv1.PredictStreamResponse_Response{Response: resp}})

	h := newHouse(t, server.Config{MaxMessageBytes: size[0]}, server.Transport{})
	if _, err := h.predict.Predict(t.Context(), observation("a")); err != nil {
		t.Error(err)
	}
	_, err = h.predict.Predict(t.Context(), observation("ab"))
	wantCode(t, err, codes.ResourceExhausted, fmt.Sprintf("the answer takes %d bytes, of at most %d", size[0]+1, size[0]))

	h = newHouse(t, server.Config{MaxMessageBytes: size[1] - 1}, server.Transport{})
	s := h.openStream(t)
	s.request("a")
	s.want(fmt.Sprintf("a: ResourceExhausted the answer takes %d bytes, of at most %d; ask for fewer outputs or rows, or raise --max-message-bytes", size[1], size[1]-1))
	s.request("")
	s.want(": InvalidArgument request_id: expected an id, because answers on a stream come in any order, got none")
	small := observation("a")
	small.Outputs = []string{"value"}
	s.send(&weftv1.PredictStreamRequest{Request: small})
	s.want("a: version 2")
	s.end()
}

// TestWatchersDoNotHoldUpTheStop: they are told NOT_SERVING, and their call ends.
func TestWatchersDoNotHoldUpTheStop(t *testing.T) {
	h := newHouse(t, server.Config{}, server.Transport{})
	h.snapshot.Store(snapshotOf(1, &catalog.Model{Name: "policy", Versions: []*catalog.Version{policyVersion(1, catalog.Ready)}}))
	h.ModelsChanged()
	watch, err := healthgrpc.NewHealthClient(h.conn).Watch(t.Context(), &healthgrpc.HealthCheckRequest{})
	if err != nil {
		t.Fatal(err)
	}
	if resp, err := watch.Recv(); err != nil || resp.GetStatus() != healthgrpc.HealthCheckResponse_SERVING {
		t.Fatalf("status %v, %v", resp, err)
	}
	stopped := make(chan error, 1)
	go func() {
		err := h.Drain(t.Context())
		h.grpc.GracefulStop()
		stopped <- err
	}()
	if resp, err := watch.Recv(); err != nil || resp.GetStatus() != healthgrpc.HealthCheckResponse_NOT_SERVING {
		t.Errorf("status %v, %v while draining", resp, err)
	}
	select {
	case err := <-stopped:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(10 * time.Second):
		t.Fatal("the stop waits for the watcher")
	}
	_, err = watch.Recv()
	wantCode(t, err, codes.Unavailable, "draining")
}

func TestGetModelMetadata(t *testing.T) {
	h := newHouse(t, server.Config{}, server.Transport{})
	got, err := h.predict.GetModelMetadata(t.Context(), &weftv1.GetModelMetadataRequest{
		Model: &weftv1.ModelSpec{Name: "policy", VersionChoice: &weftv1.ModelSpec_Label{Label: "stable"}},
	})
	if err != nil {
		t.Fatal(err)
	}
	want := &weftv1.GetModelMetadataResponse{
		Model: &weftv1.ModelSpec{Name: "policy", VersionChoice: &weftv1.ModelSpec_Version{Version: 1}},
		Signature: &weftv1.Signature{
			Inputs: []*weftv1.TensorSpec{{
				Name: "observation", Dtype: weftv1.DataType_DATA_TYPE_FP32, Shape: []int64{-1, 4}, DimNames: []string{"batch", ""}, BatchDim: new(int32(0)),
			}},
			Outputs: []*weftv1.TensorSpec{
				{Name: "action", Dtype: weftv1.DataType_DATA_TYPE_FP32, Shape: []int64{-1, 2}, BatchDim: new(int32(0))},
				{Name: "value", Dtype: weftv1.DataType_DATA_TYPE_FP32, Shape: []int64{-1}, BatchDim: new(int32(0))},
			},
			Notes: []string{"output probabilities is a map and is left out"},
		},
		Batching: &weftv1.BatchingFacts{
			Batched: true, Reason: "proven", MaxDifference: 1e-7, MaxBatchSize: 64, AllowedBatchSizes: []int32{8, 64}, MaxRequestRows: 100, MaxQueue: 1000,
			Proof: weftv1.BatchingProof_BATCHING_PROOF_EXAMPLES, Obstacle: "Loop: why",
		},
		ReadyVersions: []int64{1, 2},
		Labels:        map[string]int64{"stable": 1},
		MaxLatency:    durationpb.New(10 * time.Second),
	}
	if diff := cmp.Diff(want, got, protocmp.Transform()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	_, err = h.predict.GetModelMetadata(t.Context(), &weftv1.GetModelMetadataRequest{})
	wantCode(t, err, codes.InvalidArgument, "model.name")
	_, err = h.predict.GetModelMetadata(t.Context(), &weftv1.GetModelMetadataRequest{
		Model: &weftv1.ModelSpec{Name: "policy", VersionChoice: &weftv1.ModelSpec_Version{Version: 3}},
	})
	wantCode(t, err, codes.Unavailable, "loading")
}

func TestModelsAreShown(t *testing.T) {
	h := newHouse(t, server.Config{}, server.Transport{})
	s := houseSnapshot()
	s.Models = s.Models.With("torn", &catalog.Model{Name: "torn", Cause: "model.yaml \xff"})
	first := s.Model("policy").Versions[0]
	first.LoadedAt = time.Unix(1700000000, 0)
	first.Replicas = []catalog.Replica{{Device: "cpu", Provider: "cpu", Scheduler: 1}, {Device: "cuda:0", Provider: "cuda", Scheduler: 9, Memory: func() int64 { return 1 << 30 }}}
	first.Scarce = "2 of 3 replicas \xff"
	h.snapshot.Store(s)
	list, err := h.models.ListModels(t.Context(), &weftv1.ListModelsRequest{})
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
					Replicas: []*weftv1.ModelReplica{{Device: "cpu", Provider: "cpu"}, {Device: "cuda:0", Provider: "cuda", DeviceMemoryBytes: 1 << 30}},
				},
				{Version: 2, State: weftv1.VersionState_VERSION_STATE_READY},
				{Version: 3, State: weftv1.VersionState_VERSION_STATE_LOADING},
				{Version: 4, State: weftv1.VersionState_VERSION_STATE_FAILED, Failure: "model.onnx is not an ONNX file"},
			},
		},
		{Name: "torn", Failure: "model.yaml �"},
	}
	skeleton := []cmp.Option{
		protocmp.Transform(),
		protocmp.IgnoreFields(&weftv1.ModelVersion{}, "signature", "batching", "device", "provider", "weight", "max_latency", "loaded_at"),
	}
	if diff := cmp.Diff(want, list.GetModels(), skeleton...); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	got, err := h.models.GetModel(t.Context(), &weftv1.GetModelRequest{Name: "policy"})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(list.GetModels()[0], got.GetModel(), protocmp.Transform()); diff != "" {
		t.Errorf("GetModel differs from ListModels:\n%s", diff)
	}
	ready, loading := got.GetModel().GetVersions()[0], got.GetModel().GetVersions()[2]
	if ready.GetDevice() != "cpu" || ready.GetProvider() != "cpu" || ready.GetWeight() != 2 || ready.GetLoadedAt().AsTime().Unix() != 1700000000 ||
		ready.GetMaxLatency().AsDuration() != 10*time.Second || ready.GetTargetLatency() != nil || ready.GetSignature() == nil || ready.GetBatching() == nil {
		t.Errorf("version 1 is %v", ready)
	}
	if loading.GetSignature() != nil || loading.GetBatching() != nil || loading.GetLoadedAt() != nil {
		t.Errorf("version 3 is %v", loading)
	}
	_, err = h.models.GetModel(t.Context(), &weftv1.GetModelRequest{})
	wantCode(t, err, codes.InvalidArgument, "name: expected the name of a model")
	_, err = h.models.GetModel(t.Context(), &weftv1.GetModelRequest{Name: "nope"})
	wantCode(t, err, codes.NotFound, `there is "policy", "torn"`)
}

func TestReflection(t *testing.T) {
	h := newHouse(t, server.Config{}, server.Transport{})
	stream, err := reflectiongrpc.NewServerReflectionClient(h.conn).ServerReflectionInfo(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := stream.Send(&reflectiongrpc.ServerReflectionRequest{MessageRequest: &reflectiongrpc.ServerReflectionRequest_ListServices{}}); err != nil {
		t.Fatal(err)
	}
	resp, err := stream.Recv()
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, s := range resp.GetListServicesResponse().GetService() {
		names = append(names, s.GetName())
	}
	want := []string{
		"grpc.health.v1.Health", "grpc.reflection.v1.ServerReflection", "grpc.reflection.v1alpha.ServerReflection",
		"weft.v1.ModelService", "weft.v1.PredictionService",
	}
	if diff := cmp.Diff(want, names, cmpopts.SortSlices(func(a, b string) bool { return a < b })); diff != "" {
		t.Errorf("services (-want +got):\n%s", diff)
	}
}
