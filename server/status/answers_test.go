package status_test

import (
	"context"
	"log/slog"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/testing/protocmp"
	"google.golang.org/protobuf/types/known/durationpb"

	weftv1 "github.com/weftserve/weft/proto/gen/weft/v1"
	"github.com/weftserve/weft/runtime/catalog"
	"github.com/weftserve/weft/server"
	"github.com/weftserve/weft/server/servertest"
	"github.com/weftserve/weft/sharedsched"
)

// These are behaviours of other servers that docs/migrate/README.md maps to ours and that no other test of this package
// states.

func queueFull() error {
	return &sharedsched.Refusal{
		Reason: sharedsched.RefusedQueueFull, Queued: 1000, MaxQueue: 1000,
		RetryAfter: time.Millisecond,
	}
}

// TestQueueFullAnswer holds the whole answer to a request that finds no room: which queue, how long it is, and when to
// come again.
func TestQueueFullAnswer(t *testing.T) {
	h := servertest.New(t, server.Config{})
	h.Run = func(context.Context, *catalog.Call) error { return queueFull() }
	var trailer metadata.MD
	_, err := h.Predictions.Predict(t.Context(), servertest.Observation(""), grpc.Trailer(&trailer))
	servertest.WantCode(t, err, codes.ResourceExhausted, "the queue is full: 1000 of 1000 requests wait")
	want := []any{
		&errdetails.ErrorInfo{Reason: "QUEUE_FULL", Domain: "weft", Metadata: map[string]string{
			"model": "policy", "version": "2", "slot": "prod", "max_queue": "1000", "queued": "1000",
		}},
		&errdetails.RetryInfo{RetryDelay: durationpb.New(time.Millisecond)},
	}
	if diff := cmp.Diff(want, status.Convert(err).Details(), protocmp.Transform()); diff != "" {
		t.Errorf("details (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"1"}, trailer.Get("grpc-retry-pushback-ms")); diff != "" {
		t.Errorf("pushback (-want +got):\n%s", diff)
	}
}

// TestClientsRetryByThemselves: a gRPC client with a retry policy needs no code of its own to come again when there is
// room, and does not come again where that is pointless.
func TestClientsRetryByThemselves(t *testing.T) {
	const retries = `{"methodConfig": [{"name": [{"service": "weft.v1.PredictionService"}], "retryPolicy": {
		"maxAttempts": 4, "initialBackoff": "0.001s", "maxBackoff": "0.001s", "backoffMultiplier": 1, "retryableStatusCodes": ["RESOURCE_EXHAUSTED"]}}]}`
	hopeless := &sharedsched.Refusal{
		Reason: sharedsched.RefusedDeadline, Predicted: time.Second,
		Limit: time.Millisecond,
	}
	for _, tt := range []struct {
		name   string
		answer func(attempt int32) error
		code   codes.Code
		asked  int32
	}{
		{"room at the third attempt", func(attempt int32) error {
			if attempt < 3 {
				return queueFull()
			}
			return nil
		}, codes.OK, 3},
		{"never room", func(int32) error { return queueFull() }, codes.ResourceExhausted, 4},
		{"hopeless", func(int32) error { return hopeless }, codes.ResourceExhausted, 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var asked atomic.Int32
			h := &servertest.House{Run: func(ctx context.Context, call *catalog.Call) error {
				if err := tt.answer(asked.Add(1)); err != nil {
					return err
				}
				return servertest.RunPolicy(ctx, call)
			}}
			h.Current.Store(servertest.PolicySnapshot())
			g := grpc.NewServer()
			server.New(server.Config{Logger: slog.New(slog.DiscardHandler), Load: servertest.Idle}, h, h).Register(g)
			client := weftv1.NewPredictionServiceClient(servertest.Dial(t, g, grpc.WithDefaultServiceConfig(retries)))
			_, err := client.Predict(t.Context(), servertest.Observation(""))
			if status.Code(err) != tt.code || asked.Load() != tt.asked {
				t.Errorf("%v after %d attempts, want %v after %d", err, asked.Load(), tt.code, tt.asked)
			}
		})
	}
}
