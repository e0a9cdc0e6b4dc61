package predict_test

import (
	"context"
	"fmt"
	"slices"
	"testing"

	"github.com/weftserve/weft/server"
	"github.com/weftserve/weft/server/predict"
	"github.com/weftserve/weft/server/servertest"
)

// follower notes what it is told of requests.
type follower struct{ heard []string }

// Begin implements predict.Traces.
func (f *follower) Begin(ctx context.Context, r *predict.Request) (context.Context, predict.Trace) {
	f.heard = append(f.heard, "begin "+r.Model)
	if r.Model == "unsampled" {
		return ctx, nil
	}
	return context.WithValue(ctx, f, r.Model), f
}

// ID implements predict.Trace.
func (*follower) ID() string { return "t" }

// Follow implements predict.Trace.
func (*follower) Follow() func(context.Context) context.Context { return nil }

// Done implements predict.Trace.
func (f *follower) Done(c *predict.Course) {
	f.heard = append(f.heard, fmt.Sprint("done ", c.Event.Code, " ", c.Why != "", c.Submitted.IsZero(),
		c.Returned.IsZero(), c.Encoding.IsZero()))
}

// Sent implements predict.Trace.
func (f *follower) Sent() { f.heard = append(f.heard, "sent") }

// TestTraces are told of each request from its beginning to the end of its answer, and events name them.
func TestTraces(t *testing.T) {
	f := &follower{}
	h := servertest.New(t, server.Config{Traces: f})
	for _, model := range []string{"policy", "nonesuch", "unsampled"} {
		q := servertest.Observation("", 1, 2, 3, 4)
		q.Model.Name = model
		_, _ = h.Predictions.Predict(t.Context(), q)
	}
	want := []string{
		"begin policy", "done OK false false false false", "sent",
		"begin nonesuch", "done NotFound true true true true", "sent",
		"begin unsampled",
	}
	if !slices.Equal(f.heard, want) {
		t.Errorf("heard %q, want %q", f.heard, want)
	}
	var ids []string
	for _, e := range h.Events() {
		ids = append(ids, e.TraceID)
	}
	if !slices.Equal(ids, []string{"t", "t", ""}) {
		t.Errorf("events name the traces %q", ids)
	}
}
