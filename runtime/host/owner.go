package host

import (
	"context"
	"time"

	"github.com/weftserve/weft/runtime/catalog"
	"github.com/weftserve/weft/runtime/fleet"
	"github.com/weftserve/weft/runtime/residency"
	"github.com/weftserve/weft/runtime/serving"
)

// owner is the host as package serving knows it (serving.Owner). It turns what versions report into events of
// residency, in goroutines of their own where the caller may be a batch thread.
type owner struct{ *Host }

// Step reads only the published snapshot.
func (o owner) Step(model string, number int64) *catalog.Version {
	m := o.Snapshot().Model(model)
	if m == nil {
		return nil
	}
	return m.Version(number)
}

// lastUse is that of Config, and now for a version that a pipeline asks as a step: it stays as long.
func (h *Host) lastUse(model string, number int64) time.Time {
	if v := (owner{h}).Step(model, number); v != nil {
		if own, is := v.Resident.(*serving.Version); is && own.Held() {
			return time.Now()
		}
	}
	return h.cfg.LastUse(model, number)
}

// Changed returns a channel that is closed when the published state of a model changes.
func (o owner) Changed(model string) <-chan struct{} {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.changesLocked(model)
}

// Judged publishes how a version is served, and why, after that has changed. That it is out of batching is kept like
// a decision.
func (o owner) Judged(v *serving.Version) {
	o.inBackground(func() {
		e := residency.Judged{
			Model: v.Model, Number: v.Number, Resident: v.ID, Demoted: v.Demoted(), Files: v.Files(),
		}
		// A demotion is kept on disk, in the order of decisions.
		if e.Demoted != nil {
			o.deciding.Lock()
			defer o.deciding.Unlock()
		}
		o.step(e)
	})
}

// Lost is called by the execution, or the opening, that failed.
func (o owner) Lost(d *fleet.Device, cause error, by *serving.Version) { o.lose(d, cause, by) }

// Crashed has residency take the version out.
func (o owner) Crashed(v *serving.Version, cause error) {
	o.inBackground(func() {
		o.step(residency.Crashed{Model: v.Model, Number: v.Number, Resident: v.ID, Cause: cause})
	})
}

func (o owner) Stirred() { o.inBackground(o.Review) }

// Freed counts a version as unloaded when its last session is closed.
func (o owner) Freed(last bool) {
	if last {
		o.counts.unloads.Add(1)
	}
	o.memoryFreed()
}

func (o owner) Discard(r *serving.Replica) { o.discard(r) }

// Go starts nothing once Close has begun, so that Close can wait for all that was started.
func (o owner) Go(do func(context.Context)) (started bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.start == nil {
		return false
	}
	o.start(func() { do(o.stop) })
	return true
}
