package serving

import (
	"context"
	"testing"
	"testing/synctest"

	"github.com/weftserve/weft/internal/weftest"
	"github.com/weftserve/weft/runtime/engine"
	"github.com/weftserve/weft/runtime/fleet"
	"github.com/weftserve/weft/runtime/modelfile"
	"github.com/weftserve/weft/runtime/modelrepo"
	"github.com/weftserve/weft/runtime/tensor"
	"github.com/weftserve/weft/sharedsched"
)

// hungry has the runs of a model take 1000 bytes for each two rows of one element, begun ones too, besides 1 MiB of
// weights, and hold twice as much as they ever took.
func hungry(e *weftest.Engine) {
	answer := e.Answer
	e.Answer = func(b *tensor.Batch) error {
		m, x := &e.Known.Memory, b.Inputs[0].Shape
		m.Known, m.Peak = true, max(m.Peak, 1<<20+(x[0]+1)/2*1000*x[1])
		m.Held = 2 * m.Peak
		return answer(b)
	}
}

// TestMemoryOfRows: the scheduler learns how much device memory a further row took at most while batches were tried; of
// rows of several lengths the longest count. Callers learn how much the version holds.
func TestMemoryOfRows(t *testing.T) {
	for _, several := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			e, change, want := model(nil), few(8), int64(1000) // the third row's; two rows take 500 each
			if several {
				e, _, change = lengths()
				want = 4000 // half of what two rows of eight elements take
			}
			hungry(e)
			s := serve(t, e, options{change: func(m *modelrepo.Manifest) {
				if change(m); !several {
					m.Batching.Mode, m.Batching.AllowedBatchSizes = modelrepo.BatchAuto, []int{1, 2, 3, 4, 8}
				}
			}})
			if got := s.sched.State().Versions[0].Settings.RowMemory; got != want {
				t.Errorf("several lengths %v: a further row takes %d bytes, want %d", several, got, want)
			}
			live := s.public().Live
			for range 2 {
				if got := live().Memory; len(got) != 1 || got[0] != e.Known.Memory.Held {
					t.Errorf("it holds %d bytes, want %d", got, e.Known.Memory.Held)
				}
				e.Known.Memory.Held += 1 << 20
			}
			if e.Known = (engine.Stats{}); live().Memory[0] >= 0 {
				t.Error("an engine that does not tell is said to")
			}
		})
	}
}

// heirs notes for each replica that inherits costs whether it is the same version, moved.
type heirs struct {
	Scheduler
	moved []bool
}

func (h *heirs) Inherit(v, from sharedsched.VersionID, moved bool) {
	h.moved = append(h.moved, moved)
	h.Scheduler.Inherit(v, from, moved)
}

// TestMemoryStaysWithTheSession: a replica that moves to another flow keeps its session, and so the device memory that
// this has taken; a version that takes its place has a new one.
func TestMemoryStaysWithTheSession(t *testing.T) {
	s := serve(t, weftest.PerRow(1, weftest.Double), options{})
	h := &heirs{Scheduler: s.sched}
	s.Shared.sched = h
	r, c := s.v.Replicas()[0], s.c
	heavier := *c.Manifest
	heavier.Weight = 3
	c.Manifest = &heavier
	moved, err := r.reconfigure(c)
	if err != nil {
		t.Fatal(err)
	}
	s.v.Change([]*Replica{moved})
	r.Finish(t.Context())
	s.Open = func(context.Context, modelrepo.Version, *modelfile.Files, *modelrepo.Manifest, string, engine.Try,
	) (engine.Opened, error) {
		return engine.Opened{Session: weftest.PerRow(1, weftest.Double), Device: "dev"}, nil
	}
	second := s.NewVersion(s.c, 2, nil)
	next, err := second.Open(t.Context(), s.c, s.Fleet.Get("dev"), 0, func(*fleet.Device) *Replica { return moved })
	if err != nil {
		t.Fatal(err)
	}
	next.Finish(t.Context())
	if len(h.moved) != 2 || !h.moved[0] || h.moved[1] {
		t.Errorf("moved, and then replaced: the scheduler was told %v", h.moved)
	}
}
