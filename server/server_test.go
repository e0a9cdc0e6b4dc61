package server_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"go.uber.org/goleak"
	"google.golang.org/grpc/codes"
	healthgrpc "google.golang.org/grpc/health/grpc_health_v1"
	reflectiongrpc "google.golang.org/grpc/reflection/grpc_reflection_v1"
	"google.golang.org/protobuf/proto"

	weftv1 "github.com/weftserve/weft/proto/gen/weft/v1"
	"github.com/weftserve/weft/runtime/catalog"
	"github.com/weftserve/weft/server"
	"github.com/weftserve/weft/server/servertest"
)

func TestDrainWaitsForRequests(t *testing.T) {
	h := servertest.New(t, server.Config{})
	gate := servertest.NewGated()
	h.Run = gate.Run
	answered := make(chan error, 1)
	go func() {
		_, err := h.Predictions.Predict(t.Context(), servertest.Observation(""))
		answered <- err
	}()
	<-gate.Entered
	late := errors.New("drained for too long")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(late)
	if err := h.Drain(ctx); !errors.Is(err, late) {
		t.Errorf("drain with a request in flight: %v", err)
	}
	_, err := h.Predictions.Predict(t.Context(), servertest.Observation(""))
	servertest.WantCode(t, err, codes.Unavailable, "draining")
	stream := h.OpenStream(t.Context(), t)
	_, err = stream.RPC.Recv()
	servertest.WantCode(t, err, codes.Unavailable, "draining")

	close(gate.Release)
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
	h := servertest.New(t, server.Config{MaxConcurrentRequests: 2})
	gate := servertest.NewGated()
	h.Run = gate.Run
	answered := make(chan error, 1)
	go func() {
		_, err := h.Predictions.Predict(t.Context(), servertest.Observation(""))
		answered <- err
	}()
	s := h.OpenStream(t.Context(), t)
	s.Request("a")
	<-gate.Entered
	<-gate.Entered
	_, err := h.Predictions.Predict(t.Context(), servertest.Observation(""))
	servertest.WantCode(t, err, codes.ResourceExhausted, "maximum of 2 concurrent requests")
	s.Request("b")
	s.Want("b: ResourceExhausted the server has its maximum of 2 concurrent requests; try again, or raise " +
		"--max-concurrent-requests")
	h.SetMaxConcurrentRequests(1)
	_, err = h.Predictions.Predict(t.Context(), servertest.Observation(""))
	servertest.WantCode(t, err, codes.ResourceExhausted, "maximum of 1 concurrent requests")
	h.SetMaxConcurrentRequests(3)
	s.Request("c")
	<-gate.Entered
	close(gate.Release)
	s.Want("a: version 2", "c: version 2")
	if err := <-answered; err != nil {
		t.Error(err)
	}
	s.End()
}

func TestServerHasRoomAgain(t *testing.T) {
	h := servertest.New(t, server.Config{MaxConcurrentRequests: 1})
	for range 3 {
		if _, err := h.Predictions.Predict(t.Context(), servertest.Observation("")); err != nil {
			t.Fatal(err)
		}
		bad := servertest.Observation("")
		bad.Inputs = nil
		_, err := h.Predictions.Predict(t.Context(), bad)
		servertest.WantCode(t, err, codes.InvalidArgument, "observation")
	}
}

func TestMessageLimit(t *testing.T) {
	h := servertest.New(t, server.Config{MaxMessageBytes: 1024})
	_, err := h.Predictions.Predict(t.Context(), servertest.Observation("", make([]float32, 1024)...))
	servertest.WantCode(t, err, codes.ResourceExhausted, "--max-message-bytes")
}

// TestAnswerLimit: an answer as large as a message may be is sent, one of a byte more is an error, on a stream too.
func TestAnswerLimit(t *testing.T) {
	var size [2]int // of the answer to Predict, and on a stream
	probe := servertest.New(t, server.Config{})
	resp, err := probe.Predictions.Predict(t.Context(), servertest.Observation("a"))
	if err != nil {
		t.Fatal(err)
	}
	size[0] = proto.Size(resp)
	size[1] = proto.Size(&weftv1.PredictStreamResponse{
		RequestId: "a",
		Result:    &weftv1.PredictStreamResponse_Response{Response: resp},
	})

	h := servertest.New(t, server.Config{MaxMessageBytes: size[0]})
	if _, err := h.Predictions.Predict(t.Context(), servertest.Observation("a")); err != nil {
		t.Error(err)
	}
	_, err = h.Predictions.Predict(t.Context(), servertest.Observation("ab"))
	servertest.WantCode(t, err, codes.ResourceExhausted,
		fmt.Sprintf("the answer takes %d bytes, of at most %d", size[0]+1, size[0]))

	h = servertest.New(t, server.Config{MaxMessageBytes: size[1] - 1})
	s := h.OpenStream(t.Context(), t)
	s.Request("a")
	s.Want(fmt.Sprintf("a: ResourceExhausted the answer takes %d bytes, of at most %d; ask for fewer outputs or rows, "+
		"or raise --max-message-bytes", size[1], size[1]-1))
	s.Request("")
	s.Want(": InvalidArgument request_id: expected an id, because answers on a stream come in any order, got none")
	small := servertest.Observation("a")
	small.Outputs = []string{"value"}
	s.Send(&weftv1.PredictStreamRequest{Request: small})
	s.Want("a: version 2")
	s.End()
}

// TestWatchersDoNotHoldUpTheStop: they get NOT_SERVING, and requests are answered on. Their call ends when the server
// leaves.
func TestWatchersDoNotHoldUpTheStop(t *testing.T) {
	h := servertest.New(t, server.Config{})
	h.Current.Store(servertest.SnapshotOf(1,
		&catalog.Model{Name: "policy", Versions: []*catalog.Version{servertest.PolicyVersion(1, catalog.Ready)}}))
	h.ModelsChanged()
	watch, err := healthgrpc.NewHealthClient(h.Conn).Watch(t.Context(), &healthgrpc.HealthCheckRequest{})
	if err != nil {
		t.Fatal(err)
	}
	if resp, err := watch.Recv(); err != nil || resp.GetStatus() != healthgrpc.HealthCheckResponse_SERVING {
		t.Fatalf("status %v, %v", resp, err)
	}
	h.Retire()
	if resp, err := watch.Recv(); err != nil || resp.GetStatus() != healthgrpc.HealthCheckResponse_NOT_SERVING {
		t.Errorf("status %v, %v while draining", resp, err)
	}
	if _, err = h.Predictions.Predict(t.Context(), servertest.Observation("")); err != nil {
		t.Errorf("a request to a server that is retiring: %v", err)
	}
	stopped := make(chan error, 1)
	go func() {
		err := h.Drain(t.Context())
		h.GRPC.GracefulStop()
		stopped <- err
	}()
	select {
	case err := <-stopped:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(10 * time.Second):
		t.Fatal("the stop waits for the watcher")
	}
	_, err = watch.Recv()
	servertest.WantCode(t, err, codes.Unavailable, "draining")
}

func TestReflection(t *testing.T) {
	h := servertest.New(t, server.Config{})
	stream, err := reflectiongrpc.NewServerReflectionClient(h.Conn).ServerReflectionInfo(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	list := &reflectiongrpc.ServerReflectionRequest_ListServices{}
	if err := stream.Send(&reflectiongrpc.ServerReflectionRequest{MessageRequest: list}); err != nil {
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
		"inference.GRPCInferenceService", "tensorflow.serving.ModelService", "tensorflow.serving.PredictionService",
		"weft.v1.ModelService", "weft.v1.PredictionService", "xds.service.orca.v3.OpenRcaService",
	}
	if diff := cmp.Diff(want, names, cmpopts.SortSlices(func(a, b string) bool { return a < b })); diff != "" {
		t.Errorf("services (-want +got):\n%s", diff)
	}
}

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }
