package host

import (
	"context"

	"github.com/weftserve/weft/runtime/fleet"
	"github.com/weftserve/weft/runtime/residency"
	"github.com/weftserve/weft/runtime/serving"
)

// owner is the host as versions know it: it turns changes to them into events.
type owner struct{ *Host }

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
		if e.Demoted != nil {
			o.deciding.Lock()
			defer o.deciding.Unlock()
		}
		o.step(e)
	})
}

func (o owner) Lost(d *fleet.Device, cause error, by *serving.Version) { o.lose(d, cause, by) }

func (o owner) Crashed(v *serving.Version, cause error) {
	o.inBackground(func() {
		o.step(residency.Crashed{Model: v.Model, Number: v.Number, Resident: v.ID, Cause: cause})
	})
}

func (o owner) Stirred() { o.inBackground(o.Review) }

func (o owner) Freed(last bool) {
	if last {
		o.counts.unloads.Add(1)
	}
	o.memoryFreed()
}

func (o owner) Discard(r *serving.Replica) { o.discard(r) }

func (o owner) Go(do func(context.Context)) (started bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.start == nil {
		return false
	}
	o.start(func() { do(o.stop) })
	return true
}
