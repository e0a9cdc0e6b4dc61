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
	rowsPerBatch float64
	shares       []float64 // by load: its model's share of the device time
}

// inVirtualTime plays the scene with a house, but without gRPC, whose time stands still while anything computes: only
// the device takes time, exactly as long as its curves say.
func (s *scene) inVirtualTime(t *testing.T) (p played) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		p = s.play(t, newSynthHouse(t, s.models))
	})
	return p
}

func (s *scene) play(t *testing.T, h *synthHouse) played {
	t.Helper()
	rowsPerBatch, _ := h.mark()
	total, served := h.cpu.Load(), h.served()
	p := played{calls: run(t.Context(), inProcess(h), s.loads)}
	busy := float64(h.cpu.Load() - total)
	p.wasted = float64(h.late.Load()) / busy
	for _, l := range s.loads {
		p.shares = append(p.shares, float64(h.served()[l.model]-served[l.model])/busy)
	}
	p.rowsPerBatch = rowsPerBatch()
	for i, c := range p.calls {
		t.Logf("%s: %v", s.loads[i].model, c)
	}
	t.Logf("%.1f rows a batch, %.3f %% of the device time for answers that came too late", p.rowsPerBatch,
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

// alone is calls of the standard model and of nothing else.
func alone(rate float64, span time.Duration) *scene {
	return &scene{
		models: map[string]string{"standard": standard},
		loads:  []load{{model: "standard", course: steady(rate, span), limit: limit, seed: 1}},
	}
}
