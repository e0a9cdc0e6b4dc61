package host

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/weftserve/weft/runtime/catalog"
	"github.com/weftserve/weft/runtime/serving"
	"github.com/weftserve/weft/sharedsched"
)

// Predict runs the call and fills in Results and Outcome, on the replica that is expected to answer first. It returns
// only when nothing reads call.Inputs any more. The error is a *catalog.ModelError, a *tensor.TooLargeError,
// catalog.ErrNotReady, catalog.ErrUntried, catalog.ErrNotOpen or catalog.ErrDeviceLost, wrapped, the error that the
// scheduler ends a task with, or the cause of ctx. ErrNotReady comes before anything was answered: the caller may
// choose another version from a newer snapshot.
func (h *Host) Predict(ctx context.Context, call *catalog.Call) error {
	arrival := time.Now()
	waited := time.Duration(0) // in queues that it was taken out of
	for tried := (*serving.Replica)(nil); ; {
		// Between the choice of the version and now another one may have taken its place under its number.
		v := h.resident(call.Version)
		var r *serving.Replica
		if v != nil {
			r = v.Pick(call.Rows)
		}
		if r == nil || r == tried {
			return fmt.Errorf("model %q version %d: %w", call.Version.Model, call.Version.Number, catalog.ErrNotReady)
		}
		tried = r
		if !v.Ready.Load() {
			continue
		}
		err := r.Predict(ctx, call, arrival)
		if !errors.Is(err, sharedsched.ErrRemoved) {
			call.Outcome.Queue += waited
			return err
		}
		if r.Lost() {
			if err := h.awaitReplica(ctx, call, serving.LimitOf(call, arrival)); err != nil {
				return err
			}
		}
		waited = time.Since(arrival)
	}
}

// resident returns the version that a published one stands for, or the one that took its place under its number, if
// that takes the same requests; or nil when it is gone. The version returned need not be ready.
func (h *Host) resident(v *catalog.Version) *serving.Version {
	p := h.published.Load()
	if r := p.byID.Get(sharedsched.VersionID(v.Scheduler)); r != nil && r.Model == v.Model && r.Number == v.Number {
		return r
	}
	m := p.snapshot.Model(v.Model)
	if m == nil {
		return nil
	}
	now := m.Version(v.Number)
	if now == nil || now.State != catalog.Ready || !now.Signature.Same(v.Signature) {
		return nil
	}
	return p.byID.Get(sharedsched.VersionID(now.Scheduler))
}

// awaitReplica returns nil when there is a replica for a request that was taken out of the queue of a lost device, or
// why there will be none. It waits while the version is loaded elsewhere, until the limit if there is one.
func (h *Host) awaitReplica(ctx context.Context, call *catalog.Call, limit time.Time) error {
	for {
		h.mu.Lock()
		changed := h.changesLocked(call.Version.Model)
		h.mu.Unlock()
		v := h.resident(call.Version)
		if v != nil && v.Pick(call.Rows) != nil {
			return nil
		}
		state := catalog.Failed
		if m := h.Snapshot().Model(call.Version.Model); m != nil && m.Version(call.Version.Number) != nil {
			state = m.Version(call.Version.Number).State
		}
		if v == nil && state != catalog.Loading {
			return fmt.Errorf("model %q version %d: %w", call.Version.Model, call.Version.Number, catalog.ErrNotReady)
		}
		if err := h.serving.Await(ctx, changed, limit); err != nil {
			return err
		}
	}
}
