package server_test

import (
	"context"
	"strconv"
	"testing"
	"time"

	weftv1 "github.com/weftserve/weft/proto/gen/weft/v1"
	"github.com/weftserve/weft/runtime/catalog"
	"github.com/weftserve/weft/runtime/tensor"
	"github.com/weftserve/weft/server"
	"github.com/weftserve/weft/server/protect"
	"github.com/weftserve/weft/server/servertest"
)

// TestUnreadAnswersOfStreamsAreHeld: answers that wait for others of their stream to be sent count as soon as there are
// any. Each stream of the caller has more of them than all connections may hold together, and another caller is
// answered all the while.
func TestUnreadAnswersOfStreamsAreHeld(t *testing.T) {
	const held, answer, requests = 4 << 20, 256 << 10, 64
	g := protect.New(protect.Config{MaxHeld: held})
	h := servertest.New(t, server.Config{Connections: g, MaxInFlightPerStream: requests})
	v := servertest.PolicyVersion(1, catalog.Ready)
	v.Signature = &tensor.Signature{Inputs: v.Signature.Inputs, Outputs: []tensor.Spec{
		{Name: "action", DType: tensor.Uint8, Shape: tensor.Shape{tensor.Unknown}, BatchDim: tensor.NoBatch},
	}}
	h.Current.Store(servertest.SnapshotOf(2, &catalog.Model{Name: "policy", Versions: []*catalog.Version{v}}))
	h.Run = func(_ context.Context, call *catalog.Call) error {
		call.Results = []tensor.Tensor{
			{DType: tensor.Uint8, Shape: tensor.Shape{answer}, Data: *call.Memory.Get(answer)},
		}
		return nil
	}
	other := weftv1.NewPredictionServiceClient(servertest.Dial(t, h.GRPC))
	for range 2 {
		stream, err := h.Predictions.PredictStream(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for i := range requests {
			q := &weftv1.PredictStreamRequest{Request: servertest.Observation(strconv.Itoa(i))}
			if err := stream.Send(q); err != nil { // its end, which is what is wanted
				break
			}
		}
	}
	deadline := time.After(time.Minute)
	for g.Stats().Ended[protect.HeldBytes] == 0 {
		select {
		case <-deadline:
			t.Fatalf("%d bytes are held as it seems, of %d answers of %d", g.Stats().HeldBytes, 2*requests, answer)
		case <-time.After(time.Millisecond):
		}
		if _, err := other.Predict(t.Context(), servertest.Observation("")); err != nil {
			t.Fatalf("another caller: %v", err)
		}
	}
}
