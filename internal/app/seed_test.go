package app

import (
	"context"
	"testing"

	"google.golang.org/grpc/codes"

	"github.com/weftserve/weft/internal/weftest"
)

// These are behaviours of other servers that docs/MIGRATING.md maps to ours and that only the whole program shows.

// TestFullQueueMakesCallersWait: with on_full: wait a hundred callers of a queue of two are all answered.
func TestFullQueueMakesCallersWait(t *testing.T) {
	r := serve(t, map[string]string{"patient": `{synth: {base: 1ms, ` + tensors +
		`}, batching: {mode: "off", max_queue: 2, on_full: wait}}`})
	r.awaitReady(t)
	ctx, cancel := context.WithTimeout(t.Context(), weftest.Patience)
	defer cancel()
	if ended, errs := weftest.Predict(ctx, r.conn, "patient", "x", 100); ended[codes.OK] != 100 {
		t.Errorf("ended %v: %v", ended, errs)
	}
}
