package bench

import (
	"testing"
	"testing/synctest"
	"time"
)

// scene is models and the loads on them.
type scene struct {
	models map[string]string // manifests by name
	loads  []load
}

// played is the result of a scene.
type played struct {
	calls        []calls // by load
	wasted       float64 // share of the device time that went into answers which came too late
	overdue      int     // answers that came after the target that their call brought, without their way to the caller
	rowsPerBatch float64
	shares       []float64 // by load: its model's share of the device time
}

// inVirtualTime plays the scene with a house, but without gRPC, whose time stands still while anything computes: only
// the device takes time, exactly as long as its curves say.
func (s *scene) inVirtualTime(t *testing.T) (p played) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		p = s.play(t, newSynthHouse(t, s.models), inProcess)
	})
	return p
}

// overGRPC plays the scene with a server, in real time.
func (s *scene) overGRPC(b *testing.B) played {
	b.Helper()
	return s.play(b, newSynthHouse(b, s.models), func(h *synthHouse) ask { return overGRPC(h.serve(b)) })
}

func (s *scene) play(tb testing.TB, h *synthHouse, asking func(*synthHouse) ask) played {
	tb.Helper()
	ask := asking(h)
	rowsPerBatch, _ := h.mark()
	total, served := h.cpu.Load(), h.served()
	p := played{calls: run(tb.Context(), ask, s.loads)}
	busy := float64(h.cpu.Load() - total)
	p.wasted = float64(h.late.Load()) / busy
	p.overdue = int(h.overdue.Load())
	for _, l := range s.loads {
		p.shares = append(p.shares, float64(h.served()[l.model]-served[l.model])/busy)
	}
	p.rowsPerBatch = rowsPerBatch()
	for i, c := range p.calls {
		tb.Logf("%s: %v", s.loads[i].model, c)
	}
	tb.Logf("%.1f rows a batch, %.3f %% of the device time for answers that came too late", p.rowsPerBatch,
		100*p.wasted)
	return p
}

// standard is the model of most scenes: 20 ms and 1 ms a row, so that full batches of 100 rows answer 833 calls a
// second.
var standard = curve(20*time.Millisecond, time.Millisecond, "max_batch_size: 100, max_batch_cost: 120ms")

const (
	capacity = 100 / 0.120
	limit    = 500 * time.Millisecond
)
