package host

import (
	"context"
	"slices"

	"github.com/weftserve/weft/runtime/residency"
	"github.com/weftserve/weft/runtime/serving"
)

// load carries out residency.Load: it opens and proves a version, in the place of before, which serves under its
// number; nil if nothing does. It always ends with residency.Loaded. A failure is counted unless the load was
// interrupted.
func (h *Host) load(ctx context.Context, e residency.Load, before *serving.Version) {
	c := e.Of
	v := h.serving.NewVersion(c, e.Resident, e.Unbatched)
	loaded := h.showLoading(v)
	defer loaded()
	done := residency.Loaded{Load: e}
	r, wait, err := h.place(ctx, c, v, before)
	if err != nil {
		done.Err, done.Interrupted = err, ctx.Err() != nil
		if !done.Interrupted {
			h.counts.failures.Add(1)
		}
		h.mu.Lock()
		done.Free = h.memory.Free() // not before, since memory that is freed in between would wake nobody
		rest := h.stepLocked(done)
		h.mu.Unlock()
		rest()
		return
	}
	// Nothing has published v yet, so that no lock is needed.
	v.Change([]*serving.Replica{r})
	h.fillUp(ctx, c, v, before, e.Replicas)
	for _, r := range v.Replicas() {
		done.Replicas = append(done.Replicas, h.enlist(r))
	}
	h.counts.loads.Add(1)
	done.Sites, _ = h.sites(c) // it had some a moment ago
	done.Wait = wait
	h.mu.Lock()
	h.versions[v.ID] = v
	rest := h.stepLocked(done)
	if h.residentLocked(v) == nil { // its devices were lost in the meantime
		delete(h.versions, v.ID)
	}
	h.mu.Unlock()
	rest()
	_ = h.keepOverride(c.Model, c.Version.Number) // the caller may be gone; if not, it tries again and learns of it
	if m := h.Snapshot().Model(v.Model); m != nil && m.Traffic != nil {
		if err := m.Traffic.CheckOutputs(m); err != nil {
			h.log.Warn("shadow cannot be compared", "event", "shadow_incomparable", "model", v.Model, "cause", err)
		}
	}
}

// fillUp gives a version that takes another's place as many replicas as that one has: their load together could be too
// much for one. Replicas that cannot be had now are left to residency.Grow.
func (h *Host) fillUp(ctx context.Context, c residency.Candidate, v, before *serving.Version, replicas int) {
	for len(v.Replicas()) < replicas {
		r, _, err := h.place(ctx, c, v, before)
		if err != nil {
			return
		}
		v.Change(append(slices.Clip(v.Replicas()), r))
	}
}

// Hurry has runs that hang stopped from now on. A server that stops can then answer what waits behind them.
func (h *Host) Hurry() {
	h.serving.Hurry()
	h.Review()
}

// Review finds out which versions are stalled, because their runs hang or their processes are being started again, and
// publishes the changes. The host does so by itself when a run begins or ceases to hang; this is for a caller that
// learns that a process died, or that the next one is there. Of several calls at once one does the work of all.
func (h *Host) Review() {
	if h.reviews.Add(1) > 1 {
		return // the other call begins again
	}
	// done is how many calls this round answers. If more have come meanwhile, another round begins.
	for done := int32(1); ; {
		for _, v := range h.residents() {
			v.Review()
		}
		if h.reviews.CompareAndSwap(done, 0) {
			return
		}
		done = h.reviews.Load()
	}
}
