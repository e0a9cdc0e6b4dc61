package servertest

import (
	"context"
	"fmt"
	"testing"

	"google.golang.org/grpc/codes"

	weftv1 "github.com/weftserve/weft/proto/gen/weft/v1"
)

// Caller is the client's end of a stream.
type Caller struct {
	t *testing.T
	// RPC is the call.
	RPC weftv1.PredictionService_PredictStreamClient
}

// OpenStream opens a stream that ends with the context at the latest. Its methods belong to the goroutine of the test.
func (h *House) OpenStream(ctx context.Context, t *testing.T) *Caller {
	t.Helper()
	rpc, err := h.Predictions.PredictStream(ctx)
	if err != nil {
		t.Fatal(err)
	}
	return &Caller{t, rpc}
}

// Send sends a message.
func (c *Caller) Send(m *weftv1.PredictStreamRequest) {
	c.t.Helper()
	if err := c.RPC.Send(m); err != nil {
		c.t.Fatal(err)
	}
}

// Request sends an observation.
func (c *Caller) Request(id string) {
	c.t.Helper()
	c.Send(&weftv1.PredictStreamRequest{Request: Observation(id)})
}

// Answer reads one answer and returns it as "id: version" or "id: code message".
func (c *Caller) Answer() string {
	c.t.Helper()
	resp, err := c.RPC.Recv()
	if err != nil {
		return err.Error()
	}
	switch r := resp.GetResult().(type) {
	case *weftv1.PredictStreamResponse_Response:
		if r.Response.GetRequestId() != resp.GetRequestId() {
			c.t.Errorf("answer %q carries the response to %q", resp.GetRequestId(), r.Response.GetRequestId())
		}
		return fmt.Sprintf("%s: version %d", resp.GetRequestId(), r.Response.GetModel().GetVersion())
	case *weftv1.PredictStreamResponse_Error:
		return fmt.Sprintf("%s: %v %s", resp.GetRequestId(), codes.Code(r.Error.GetCode()), r.Error.GetMessage())
	}
	return resp.GetRequestId() + ": nothing"
}

// Want reads as many answers and wants them to be these, in any order. It blocks until so many came.
func (c *Caller) Want(answers ...string) {
	c.t.Helper()
	left := make(map[string]int)
	for _, a := range answers {
		left[a]++
	}
	for range answers {
		got := c.Answer()
		if left[got] == 0 {
			c.t.Errorf("answer %q, want one of %q", got, answers)
		}
		left[got]--
	}
}

// End half-closes and wants the stream to end OK without another answer, as Answer says it: "EOF".
func (c *Caller) End() {
	c.t.Helper()
	if err := c.RPC.CloseSend(); err != nil {
		c.t.Error(err)
	}
	c.Want("EOF")
}
