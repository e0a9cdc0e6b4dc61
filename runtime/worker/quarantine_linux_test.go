package worker_test

import (
	"os"
	"slices"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/weftserve/weft/internal/weftest"
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
		if _, err := run(t.Context(), alone, segfaulting); engine.KindOf(err) != engine.Crashed ||
			engine.SignalOf(err) != "SIGSEGV" {
			t.Errorf("a crash: %v", err)
		}
		b := tensor.NewBatch(1, 1, o.Memory)
		b.Patience = 10 * time.Millisecond
		if _, err := runIn(t.Context(), b, alone, hanging); engine.KindOf(err) != engine.Crashed ||
			engine.SignalOf(err) != "" {
			t.Errorf("a run that hangs: %v", err)
		}
		b.Free()
	}
	if got, err := run(t.Context(), o, 4); err != nil || got[0] != 8 || len(log.Event("worker_died")) != 0 {
		t.Errorf("%v, %v; %v", got, err, log.Lines(""))
	}
}

// TestAKillIsNobodysFault: a run whose process is ended from outside is made again, and is not blamed.
func TestAKillIsNobodysFault(t *testing.T) {
	p, _ := newPool(t)
	o := open(t, p)
	o.Session = o.Quarantine
	var killers sync.WaitGroup
	end := make(chan struct{})
	killers.Go(func() {
		for {
			select {
			case <-end:
				return
			case <-time.After(5 * time.Millisecond):
				for _, pid := range weftest.Children(os.Getpid()) {
					_ = unix.Kill(pid, unix.SIGKILL) // it may be gone
				}
			}
		}
	})
	for i := range 30 {
		got, err := run(t.Context(), o, float32(i))
		if err != nil && engine.KindOf(err) != engine.Terminated || err == nil && got[0] != float32(2*i) {
			t.Fatalf("run %d: %v, %v", i, got, err)
		}
	}
	close(end)
	killers.Wait()
}
