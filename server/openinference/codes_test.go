package openinference_test

import (
	"context"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"

	"github.com/weftserve/weft/proto/gen/inference"
	"github.com/weftserve/weft/runtime/catalog"
	"github.com/weftserve/weft/server"
	"github.com/weftserve/weft/server/access"
	"github.com/weftserve/weft/server/servertest"
	"github.com/weftserve/weft/sharedsched"
)

// TestStatusCodes: where there is no capacity, or no time, the code is ours or Triton's, as the server is set.
func TestStatusCodes(t *testing.T) {
	full := &sharedsched.Refusal{Reason: sharedsched.RefusedQueueFull, Queued: 1, MaxQueue: 1, RetryAfter: 1}
	hopeless := &sharedsched.Refusal{Reason: sharedsched.RefusedDeadline}
	for triton, want := range map[bool][3]codes.Code{
		false: {codes.ResourceExhausted, codes.DeadlineExceeded, codes.ResourceExhausted},
		true:  {codes.Unavailable, codes.Unavailable, codes.ResourceExhausted},
	} {
		h := servertest.New(t, server.Config{TritonStatusCodes: triton})
		for i, err := range []error{full, sharedsched.ErrExpired, hopeless} {
			h.Run = func(context.Context, *catalog.Call) error { return err }
			_, got := clientOf(h).ModelInfer(t.Context(), observation("", 1))
			servertest.WantCode(t, got, want[i], "")
			stream, err := clientOf(h).ModelStreamInfer(
				metadata.AppendToOutgoingContext(t.Context(), "triton_grpc_error", "true"))
			if err != nil {
				t.Fatal(err)
			}
			if err := stream.Send(observation("", 1)); err != nil {
				t.Fatal(err)
			}
			_, got = stream.Recv()
			servertest.WantCode(t, got, want[i], "")
		}
		_, got := clientOf(h).ModelReady(t.Context(), &inference.ModelReadyRequest{Name: "x"})
		servertest.WantCode(t, got, codes.NotFound, "")
		c := policyOf(map[string]access.Role{"pilot": {Predict: []string{"*"}}})
		c.Identities[0].Quota.Bytes = 1
		closed := servertest.New(t, server.Config{Access: &servertest.NewControl(t, c).Control, TritonStatusCodes: triton})
		ctx := metadata.AppendToOutgoingContext(t.Context(), "authorization", "Bearer "+servertest.Token("pilot"))
		_, got = clientOf(closed).ModelInfer(ctx, observation("", 1))
		servertest.WantCode(t, got, codes.ResourceExhausted, "quota") // which it never fits into
		c.Identities[0].Quota = access.Quota{Rate: 0.001, Burst: 1}
		closed = servertest.New(t, server.Config{Access: &servertest.NewControl(t, c).Control, TritonStatusCodes: triton})
		_, _ = clientOf(closed).ModelInfer(ctx, observation("", 1))
		_, got = clientOf(closed).ModelInfer(ctx, observation("", 1))
		servertest.WantCode(t, got, want[0], "rate")
		_, got = closed.Predictions.Predict(ctx, servertest.Observation(""))
		servertest.WantCode(t, got, codes.ResourceExhausted, "rate")
		_, got = h.Predictions.Predict(t.Context(), servertest.Observation(""))
		servertest.WantCode(t, got, codes.ResourceExhausted, "")
	}
}
