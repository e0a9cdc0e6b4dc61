package host

import (
	"errors"
	"maps"
	"reflect"
	"slices"
	"time"

	"github.com/weftserve/weft/runtime/catalog"
	"github.com/weftserve/weft/runtime/modelrepo"
)

// needsReload reports whether a resident version cannot go over to the settings of a manifest as it is: the engine would have to
// be opened in another way, or executions would become possible that its proof has not seen.
func needsReload(v *version, to *modelrepo.Manifest) bool {
	from := v.from.manifest
	a, b := &from.Batching, &to.Batching
	return !reflect.DeepEqual(from.Synth, to.Synth) || !reflect.DeepEqual(from.ONNX, to.ONNX) ||
		a.Mode != b.Mode || b.MaxBatchSize > a.MaxBatchSize || b.MaxBatchCost > a.MaxBatchCost ||
		!maps.Equal(a.BatchDim.Inputs, b.BatchDim.Inputs) || !maps.Equal(a.BatchDim.Outputs, b.BatchDim.Outputs) ||
		!slices.Equal(a.Unbatched, b.Unbatched) || !reflect.DeepEqual(a.VariableDims, b.VariableDims) ||
		slices.ContainsFunc(v.list(), func(r *replica) bool { return !proven(&r.verdict, a.AllowedBatchSizes, b.AllowedBatchSizes) })
}

// proven reports whether the sizes that executions may have according to a manifest are among those that the proof has seen.
func proven(v *verdict, from, to []int) bool {
	if !v.batched || slices.Equal(from, to) {
		return true
	}
	if len(from) == 0 { // any size up to v.most
		return len(to) > 0 && to[0] <= v.most
	}
	return len(to) > 0 && slices.Contains(v.allowed, to[0]) && !slices.ContainsFunc(to, func(size int) bool { return !slices.Contains(from, size) })
}

// under returns the verdict of a proof for a manifest whose sizes it has seen.
func (v verdict) under(b *modelrepo.Batching) verdict {
	if !v.batched {
		return v
	}
	most, proven := min(v.most, b.MaxBatchSize), v.allowed
	v.most, v.allowed = most, nil
	for _, size := range b.AllowedBatchSizes {
		if size <= most && (len(proven) == 0 || slices.Contains(proven, size)) {
			v.allowed = append(v.allowed, size)
		}
	}
	if n := len(v.allowed); n > 0 {
		v.most = v.allowed[n-1]
	}
	return v
}

// reconfigure has a resident version follow the settings of a manifest that does not need a reload. They apply from the next
// batch on. A change of who owns the share of the device, or of its size, moves the replicas in the scheduler.
func (h *Host) reconfigure(c candidate, v *version) error {
	moved := map[*replica]*replica{}
	var errs []error
	for _, r := range v.list() {
		next, err := h.reconfigureReplica(c, r)
		errs = append(errs, err)
		if next != nil {
			moved[r] = next
		}
	}
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
		if e.resident != v {
			return // its device was lost meanwhile
		}
		v.change(all)
		v.publish(public)
		describe(public, c.manifest, all[0].verdict.under(&c.manifest.Batching))
		if e.failure == nil {
			public.Cause = ""
		}
	})
	h.retireLater(append(unused, slices.Collect(maps.Values(moved))...)...)
	err := errors.Join(errs...)
	if err == nil {
		h.log.Info("a model version follows its changed manifest without being loaded again", "model", v.model, "version", v.number)
	}
	return err
}

// reconfigureReplica has one replica follow, and returns the one that is to take its place where it was moved.
func (h *Host) reconfigureReplica(c candidate, r *replica) (moved *replica, err error) {
	judged := r.verdict.under(&c.manifest.Batching)
	next := *r.plan.Load()
	next.allowed, next.budget = judged.allowed, time.Duration(c.manifest.Batching.MaxBatchCost)
	if r.flowFor(c) == r.flow {
		if err := h.sched.Configure(r.id, settings(c.manifest, judged)); err != nil {
			return nil, err
		}
		r.plan.Store(&next)
		return nil, nil
	}
	if !r.sit() {
		return nil, nil // its device was lost meanwhile
	}
	defer func() {
		if moved == nil {
			err = errors.Join(err, h.vacate(r))
		}
	}()
	moved = &replica{
		version: r.version, device: r.device, opened: r.opened, buffers: r.buffers, memory: r.memory,
		signature: r.signature, verdict: r.verdict, seats: r.seats,
	}
	moved.perRow.Store(r.perRow.Load())
	moved.plan.Store(&next)
	if err := h.enroll(c, moved, r); err != nil {
		return nil, err
	}
	if err := h.sched.Configure(moved.id, settings(c.manifest, judged)); err != nil {
		h.dismiss(moved)
		return nil, err
	}
	return moved, nil
}

// describe writes what a version's manifest and its verdict say of how it is served.
func describe(public *catalog.Version, m *modelrepo.Manifest, v verdict) {
	b := &m.Batching
	public.Batching = catalog.Batching{
		Batched: v.batched, Reason: v.reason, MaxDifference: v.difference,
		MaxBatchSize: max(v.most, 1), AllowedBatchSizes: v.allowed,
		MaxRequestRows: requestRows(b, v), MaxQueue: b.MaxQueue,
	}
	public.Weight = m.Weight
	public.TargetLatency, public.MaxLatency = time.Duration(m.TargetLatency), time.Duration(m.MaxLatency)
}
