package app

import (
	"context"
	"fmt"
	"os"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/weftserve/weft/internal/weftest"
	weftv1 "github.com/weftserve/weft/proto/gen/weft/v1"
)

// These are behaviours of other servers that docs/migrate/README.md maps to ours and that only the whole program shows.

// TestSignalsDrain: at either signal requests that are held for a batch timeout far away are executed, in one batch,
// and answered.
func TestSignalsDrain(t *testing.T) {
	for _, signal := range []os.Signal{os.Interrupt, syscall.SIGTERM} {
		t.Run(signal.String(), func(t *testing.T) {
			r := serve(t, map[string]string{"held": `
synth: {base: 1ms, ` + tensors + `}
max_latency: 1m
batching: {batch_timeout: 1m, max_batch_size: 64}
`})
			r.awaitReady(t)
			ctx, cancel := context.WithTimeout(t.Context(), weftest.Patience)
			defer cancel()
			var wg sync.WaitGroup
			for _, rows := range []int{10, 20, 30} {
				wg.Go(func() {
					req := weftest.Request("held", 1)
					x := req.GetInputs()["x"]
					x.Shape, x.FloatValues = []int64{int64(rows), 4}, make([]float32, 4*rows)
					answer, err := weftv1.NewPredictionServiceClient(r.conn).Predict(ctx, req)
					if err != nil {
						t.Errorf("%d rows: %v", rows, err)
						return
					}
					if shape := fmt.Sprint(answer.GetOutputs()["y"].GetShape()); shape != fmt.Sprintf("[%d 2]", rows) {
						t.Errorf("%d rows: an answer of shape %s", rows, shape)
					}
					e := answer.GetExecution()
					if e.GetFlushReason() != weftv1.FlushReason_FLUSH_REASON_DRAIN || e.GetBatchRequests() != 3 ||
						e.GetBatchRows() != 60 {
						t.Errorf("%d rows: %v", rows, e)
					}
				})
			}
			awaitHeld(ctx, t, r, 3)
			r.stop = sync.OnceFunc(func() { r.signals <- signal })
			r.stop()
			wg.Wait()
		})
	}
}

// awaitHeld returns when n requests wait and none is executed.
func awaitHeld(ctx context.Context, t *testing.T, r *running, n int32) {
	t.Helper()
	again := time.NewTicker(5 * time.Millisecond) // nothing tells of queues but looking at them
	defer again.Stop()
	for {
		answer, err := weftv1.NewModelServiceClient(r.conn).GetSchedulerState(ctx, &weftv1.GetSchedulerStateRequest{})
		if err != nil {
			t.Fatal(err)
		}
		if q := answer.GetState().GetQueues(); len(q) == 1 && q[0].GetRequests() == n && q[0].GetInFlight() == 0 {
			return
		}
		<-again.C
	}
}
