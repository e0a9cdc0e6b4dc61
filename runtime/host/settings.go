package host

import (
	"context"
	"errors"
	"maps"
	"reflect"
	"slices"
	"time"

	"github.com/weftserve/weft/runtime/catalog"
	"github.com/weftserve/weft/runtime/modelrepo"
	"github.com/weftserve/weft/runtime/proof"
)

// needsReload reports whether a resident version cannot go over to the settings of a manifest as it is: the engine would have to
// be opened in another way, or requests would have other rows. What was checked by one set of batch dimensions cannot be run by
// another, so that callers must see another version in its place.
func needsReload(v *version, to *modelrepo.Manifest) bool {
	from := v.from.manifest
	a, b := &from.Batching, &to.Batching
	return v.reload || !sameOpening(from, to) || !sameDims(a, b) ||
		v.proven.Batching.Mode != b.Mode && slices.ContainsFunc(v.list(), func(r *replica) bool { return !r.sameRows(b) })
}

// sameOpening reports whether an engine opens a model alike under two manifests.
func sameOpening(a, b *modelrepo.Manifest) bool {
	return reflect.DeepEqual(a.Synth, b.Synth) && reflect.DeepEqual(a.ONNX, b.ONNX)
}

// sameGrouping reports whether two manifests ask for the same batches.
func sameGrouping(a, b *modelrepo.Batching) bool {
	return a.Mode == b.Mode && a.Tolerance == b.Tolerance && a.MaxBatchSize == b.MaxBatchSize && a.MaxBatchCost == b.MaxBatchCost &&
		slices.Equal(a.AllowedBatchSizes, b.AllowedBatchSizes) && sameDims(a, b)
}

// sameDims reports whether two manifests say the same of where rows and lengths are.
func sameDims(a, b *modelrepo.Batching) bool {
	return maps.Equal(a.BatchDim.Inputs, b.BatchDim.Inputs) && maps.Equal(a.BatchDim.Outputs, b.BatchDim.Outputs) &&
		slices.Equal(a.Unbatched, b.Unbatched) && reflect.DeepEqual(a.VariableDims, b.VariableDims)
}

// reconfigure has a resident version follow the settings of a manifest that does not need a reload. They apply from the next
// batch on. A change of who owns the share of the device, or of its size, moves the replicas in the scheduler.
func (h *Host) reconfigure(ctx context.Context, c candidate, v *version) error {
	moved := map[*replica]*replica{}
	var errs []error
	prove := needsProof(v, c.manifest)
	if prove {
		why := v.demoted.Load()
		var err error
		moved, err = h.reprove(ctx, c, v)
		switch {
		case ctx.Err() != nil:
			h.retireLater(slices.Collect(maps.Values(moved))...)
			return context.Cause(ctx)
		case errors.Is(err, errOtherRows):
			h.mu.Lock()
			v.reload = true
			h.mu.Unlock()
			return nil
		case err == nil:
			h.lift(v, why)
		}
		errs = append(errs, err)
		for _, next := range moved {
			errs = append(errs, h.tune(next, next.unit.Plan(), settings(c.manifest, next.verdict)))
		}
	} else {
		for _, r := range v.list() {
			next, err := h.reconfigureReplica(c, r)
			errs = append(errs, err)
			if next != nil {
				moved[r] = next
			}
		}
	}
	var served proof.Verdict
	var unused []*replica // on one side of a move
	h.updateVersion(v.model, v.number, func(e *entry, public *catalog.Version) {
		all := slices.Clone(v.list())
		for i, r := range all {
			if moved[r] != nil {
				all[i] = moved[r]
				unused = append(unused, r)
				delete(moved, r)
			}
		}
		v.settings, v.scarce, v.until = c.manifest, "", time.Time{}
		if prove && errors.Join(errs...) == nil {
			v.proven, e.demotion = c.manifest, nil
		}
		if e.resident != v {
			return // its device was lost meanwhile
		}
		v.change(all)
		public.Signature = all[0].shown()
		served = all[0].judged(c.manifest)
		describe(public, c.manifest, served)
		v.publish(public)
		if e.failure == nil {
			public.Cause, public.Fault = "", nil
		}
	})
	h.retireLater(append(unused, slices.Collect(maps.Values(moved))...)...)
	err := errors.Join(errs...)
	switch {
	case err != nil:
	case prove:
		h.log.Info("a model version was proven anew for its changed manifest, without being loaded again", "model", v.model, "version", v.number,
			"batched", served.Batched, "reason", served.Reason)
	default:
		h.log.Info("a model version follows its changed manifest without being loaded again", "model", v.model, "version", v.number)
	}
	return err
}

// reconfigureReplica has one replica follow, and returns the one that is to take its place where it was moved.
func (h *Host) reconfigureReplica(c candidate, r *replica) (moved *replica, err error) {
	judged := r.verdict.Under(&c.manifest.Batching)
	now := r.unit.Plan().Whole()
	next := *now
	next.Allowed, next.Most, next.Budget = judged.Allowed, judged.Most, time.Duration(c.manifest.Batching.MaxBatchCost)
	next.Watch = watchOf(&c.manifest.Batching)
	if next.Values != nil && (next.Most > now.Most || !slices.Equal(next.Allowed, now.Allowed)) {
		next.Values = valuesOf(next.Signature, judged) // each was proven for the sizes that there were
	}
	if r.flowFor(c) == r.flow {
		return nil, h.tune(r, &next, settings(c.manifest, judged))
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
	if err := h.tune(moved, &next, settings(c.manifest, judged)); err != nil {
		h.dismiss(moved)
		return nil, err
	}
	return moved, nil
}

// describe writes what a version's manifest and its verdict say of how it is served.
func describe(public *catalog.Version, m *modelrepo.Manifest, v proof.Verdict) {
	b := &m.Batching
	public.Batching = catalog.Batching{
		Batched: v.Batched && v.Most > 1, Reason: v.Reason, Proof: v.Proof, Obstacle: v.Obstacle, MaxDifference: v.Difference,
		MaxBatchSize: max(v.Most, 1), AllowedBatchSizes: v.Allowed,
		MaxRequestRows: requestRows(b, v), MaxQueue: b.MaxQueue,
	}
	public.Weight = m.Weight
	public.TargetLatency, public.MaxLatency = time.Duration(m.TargetLatency), time.Duration(m.MaxLatency)
}
