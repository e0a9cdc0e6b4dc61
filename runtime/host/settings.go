package host

import (
	"context"

	"github.com/weftserve/weft/runtime/catalog"
	"github.com/weftserve/weft/runtime/residency"
	"github.com/weftserve/weft/runtime/serving"
)

// reconfigure carries out residency.Reconfigure: it makes a resident version follow the settings of a manifest, from
// the next batch on. Another owner or size of the share of the device moves the replicas to another flow of the
// scheduler. It always ends with residency.Reconfigured.
func (h *Host) reconfigure(ctx context.Context, e residency.Reconfigure, v *serving.Version) {
	c := e.Of
	done := residency.Reconfigured{Reconfigure: e}
	h.mu.Lock()
	r := h.residentLocked(v)
	h.mu.Unlock()
	if r == nil { // its device was lost
		done.Interrupted = true
		h.step(done)
		return
	}
	// r.Settings and r.Proven are safe to read without the lock: they change only with residency.Reconfigured.
	// They change only when this ends.
	f, err := v.Follow(ctx, c, r.Settings, r.Proven)
	done.Err, done.Interrupted, done.Reload = err, ctx.Err() != nil && err != nil, f.Reload
	done.Proven = f.Proven && err == nil
	done.Moved = map[residency.ReplicaID]residency.Replica{}
	for old, next := range f.Moved {
		done.Moved[old.Key] = h.enlist(next)
	}
	h.mu.Lock()
	rest := h.stepLocked(done)
	h.mu.Unlock()
	defer rest() // anybody who waits for this finds it in the log
	switch {
	case err != nil, f.Reload:
	case f.Proven:
		now := h.versionFace(v)
		h.log.Info("version proven again for its changed manifest", "event", "version_reproven",
			"model", v.Model, "version", v.Number, "batched", now.Batched, "reason", now.Reason)
	default:
		h.log.Info("version follows its changed manifest", "event", "version_reconfigured",
			"model", v.Model, "version", v.Number)
	}
}

// versionFace returns the published description of how a version is batched.
func (h *Host) versionFace(v *serving.Version) (b catalog.Batching) {
	if m := h.Snapshot().Model(v.Model); m != nil && m.Version(v.Number) != nil {
		b = m.Version(v.Number).Batching
	}
	return b
}
