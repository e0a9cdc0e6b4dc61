package worker_test

import (
	"slices"
	"testing"
	"time"

	"github.com/weftserve/weft/runtime/engine"
	"github.com/weftserve/weft/runtime/tensor"
)

// TestQuarantine: runs are made in a process of their own; one that ends it harms nobody, and the next goes well.
func TestQuarantine(t *testing.T) {
	p, log := newPool(t)
	o, other := open(t, p), open(t, p)
	alone, others := o, other
	alone.Session, others.Session = o.Quarantine, other.Quarantine
	for range 2 {
		for _, q := range []engine.Opened{alone, others, alone} {
			if got, err := run(t.Context(), q, 4); err != nil || !slices.Equal(got, []float32{8}) {
				t.Errorf("%v, %v", got, err)
			}
		}
		if _, err := run(t.Context(), alone, segfaulting); engine.KindOf(err) != engine.Crashed {
			t.Errorf("a crash: %v", err)
		}
		b := tensor.NewBatch(1, 1, o.Memory)
		b.Patience = 10 * time.Millisecond
		if _, err := runIn(t.Context(), b, alone, hanging); engine.KindOf(err) != engine.Crashed {
			t.Errorf("a run that hangs: %v", err)
		}
		b.Free()
	}
	if got, err := run(t.Context(), o, 4); err != nil || got[0] != 8 || len(log.Event("worker_died")) != 0 {
		t.Errorf("%v, %v; %v", got, err, log.Lines(""))
	}
}
