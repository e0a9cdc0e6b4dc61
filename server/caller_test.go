package server_test

import (
	"slices"
	"sync"
	"testing"

	weftv1 "github.com/weftserve/weft/proto/gen/weft/v1"
	"github.com/weftserve/weft/runtime/catalog"
	"github.com/weftserve/weft/server"
	"github.com/weftserve/weft/server/access"
	"github.com/weftserve/weft/server/predict"
	"github.com/weftserve/weft/server/servertest"
)

// charged keeps whom requests are charged to.
type charged struct {
	mu sync.Mutex
	to []catalog.Caller // guarded by mu
}

func (c *charged) Keep(r *predict.Recorded) {
	c.mu.Lock()
	defer c.mu.Unlock()
	var to catalog.Caller
	if r.Request.Caller != nil {
		to = *r.Request.Caller
	}
	c.to = append(c.to, to)
}

// TestRequestsAreCharged to the identity of their caller, one by one and on streams; to nobody where all are let in.
func TestRequestsAreCharged(t *testing.T) {
	for guarded, want := range map[bool]catalog.Caller{true: {Name: "one", Weight: 5}, false: {}} {
		var c charged
		config := server.Config{Recorder: &c}
		if guarded {
			config.Access = &limited(t, access.Quota{}).Control
		}
		h := servertest.New(t, config)
		ctx := as(t.Context(), "one")
		if _, err := h.Predictions.Predict(ctx, servertest.Observation("")); err != nil {
			t.Fatal(err)
		}
		stream := h.OpenStream(ctx, t)
		stream.Send(&weftv1.PredictStreamRequest{Request: servertest.Observation("a")})
		stream.Want("a: version 2")
		stream.End()
		c.mu.Lock()
		if !slices.Equal(c.to, []catalog.Caller{want, want}) {
			t.Errorf("guarded %t: charged to %v, want %v", guarded, c.to, want)
		}
		c.mu.Unlock()
	}
}
