package host

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/weftserve/weft/runtime/catalog"
	"github.com/weftserve/weft/runtime/modelrepo"
	"github.com/weftserve/weft/runtime/proof"
	"github.com/weftserve/weft/runtime/residency"
)

// reconfigure has a resident version follow the settings of a manifest. They apply from the next batch on. A change of
// who owns the share of the device, or of its size, moves the replicas in the scheduler.
func (h *Host) reconfigure(ctx context.Context, e residency.Reconfigure, v *version) {
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
	settings, proven := r.Settings, r.Proven // which change only when this ends
	if h.needsOtherRows(v, proven, c.Manifest) {
		done.Reload = true
		h.step(done)
		return
	}
	var moved map[*replica]*replica
	var err error
	prove := needsProof(v, settings, proven, c.Manifest)
	if prove {
		moved, err = h.reproveAll(ctx, c, v)
		done.Proven = err == nil
	} else {
		moved, err = h.reconfigureAll(c, v)
	}
	done.Err, done.Interrupted, done.Reload = err, ctx.Err() != nil && err != nil, errors.Is(err, errOtherRows)
	done.Moved = map[residency.ReplicaID]residency.Replica{}
	for old, next := range moved {
		done.Moved[old.key] = h.enlist(next)
	}
	h.step(done)
	switch {
	case err != nil:
	case prove:
		now := h.versionFace(v)
		h.log.Info("a model version was proven anew for its changed manifest, without being loaded again",
			"model", v.model, "version", v.number,
			"batched", now.Batched, "reason", now.Reason)
	default:
		h.log.Info("a model version follows its changed manifest without being loaded again", "model", v.model,
			"version", v.number)
	}
}

// versionFace returns what is published of how a version is batched.
func (h *Host) versionFace(v *version) (b catalog.Batching) {
	if m := h.Snapshot().Model(v.model); m != nil && m.Version(v.number) != nil {
		b = m.Version(v.number).Batching
	}
	return b
}

// needsOtherRows reports whether a manifest would give requests other rows than those that a version is published with:
// what was checked by one set of batch dimensions cannot be run by another, so that callers must see another version in
// its place.
func (h *Host) needsOtherRows(v *version, proven, to *modelrepo.Manifest) bool {
	return proven.Batching.Mode != to.Batching.Mode &&
		slices.ContainsFunc(v.list(), func(r *replica) bool { return !r.sameRows(&to.Batching) })
}

// reproveAll proves every replica of a version anew, and returns those that are to take their places, by place, tuned.
func (h *Host) reproveAll(ctx context.Context, c residency.Candidate, v *version) (map[*replica]*replica, error) {
	why := v.demoted.Load()
	moved, err := h.reprove(ctx, c, v)
	switch {
	case err == nil && ctx.Err() != nil:
		return moved, context.Cause(ctx)
	case err == nil:
		h.lift(v, why)
	}
	for _, next := range moved {
		err = errors.Join(err, h.tune(next, next.unit.Plan(), settings(c.Manifest, next.verdict)))
	}
	return moved, err
}

// reconfigureAll has every replica follow, and returns those that take the place of one that was moved, by place.
func (h *Host) reconfigureAll(c residency.Candidate, v *version) (map[*replica]*replica, error) {
	moved := map[*replica]*replica{}
	var errs []error
	for _, r := range v.list() {
		next, err := h.reconfigureReplica(c, r)
		errs = append(errs, err)
		if next != nil {
			moved[r] = next
		}
	}
	return moved, errors.Join(errs...)
}

// reconfigureReplica has one replica follow, and returns the one that is to take its place where it was moved.
func (h *Host) reconfigureReplica(c residency.Candidate, r *replica) (moved *replica, err error) {
	judged := r.verdict.Under(&c.Manifest.Batching)
	now := r.unit.Plan().Whole()
	next := *now
	next.Allowed, next.Most, next.Budget = judged.Allowed, judged.Most, time.Duration(c.Manifest.Batching.MaxBatchCost)
	next.Watch = watchOf(&c.Manifest.Batching)
	if next.Values != nil && (next.Most > now.Most || !slices.Equal(next.Allowed, now.Allowed)) {
		next.Values = valuesOf(next.Signature, judged) // each was proven for the sizes that there were
	}
	if r.flowFor(c) == r.flow {
		return nil, h.tune(r, &next, settings(c.Manifest, judged))
	}
	if !r.sit() {
		return nil, nil // its device was lost meanwhile
	}
	defer func() {
		if moved == nil {
			err = errors.Join(err, h.vacate(r))
		}
	}()
	moved = r.moved()
	moved.unit.Follow(&next)
	if err := h.enroll(c, moved, r); err != nil {
		return nil, err
	}
	if err := h.tune(moved, &next, settings(c.Manifest, judged)); err != nil {
		h.dismiss(moved)
		return nil, err
	}
	return moved, nil
}

// describe writes what a version's manifest and its verdict say of how it is served.
func describe(public *catalog.Version, m *modelrepo.Manifest, v proof.Verdict) {
	b := &m.Batching
	public.Batching = catalog.Batching{
		Batched: v.Batched && v.Most > 1, Reason: v.Reason, Proof: v.Proof, Obstacle: v.Obstacle,
		MaxDifference: v.Difference,
		MaxBatchSize:  max(v.Most, 1), AllowedBatchSizes: v.Allowed,
		MaxRequestRows: requestRows(b, v), MaxQueue: b.MaxQueue,
	}
	public.Weight = m.Weight
	public.TargetLatency, public.MaxLatency = time.Duration(m.TargetLatency), time.Duration(m.MaxLatency)
}
