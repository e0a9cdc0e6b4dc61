package serving

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/weftserve/weft/runtime/modelrepo"
	"github.com/weftserve/weft/runtime/residency"
)

// Followed is how a version came to follow a manifest.
type Followed struct {
	// Moved are the replicas that are to take the places of others, by these.
	Moved map[*Replica]*Replica
	// Proven: its batching was proven again, whether that succeeded or not.
	Proven bool
	// Reload: it can follow only by being loaded again.
	Reload bool
}

// Follow makes the version follow the manifest of a candidate, from the next batch on. settings is the manifest that it
// follows now, and proven the one that its batching was proven with. There are three cases: other batch dimensions need
// a reload, batches beyond the proof need another proof, and all else is set at once. Another owner or size of the
// share of the device moves replicas to another flow of the scheduler.
func (v *Version) Follow(ctx context.Context, c residency.Candidate,
	settings, proven *modelrepo.Manifest,
) (f Followed, err error) {
	switch {
	case v.needsOtherRows(proven, c.Manifest):
		f.Reload = true
	case v.needsProof(settings, proven, c.Manifest) && v.staged() != nil: // its session is closed
		f.Reload = true
	case v.needsProof(settings, proven, c.Manifest):
		f.Proven = true
		v.relieve(settings, c)
		f.Moved, err = v.reproveAll(ctx, c)
		f.Reload = errors.Is(err, errOtherRows)
	default:
		f.Moved, err = v.reconfigureAll(c)
	}
	return f, err
}

// needsOtherRows reports whether a manifest would give requests other rows than the version is published with. A
// request that was checked by one set of batch dimensions cannot be run by another, so that callers must see another
// version.
func (v *Version) needsOtherRows(proven, to *modelrepo.Manifest) bool {
	return proven.Batching.Mode != to.Batching.Mode &&
		slices.ContainsFunc(v.Replicas(), func(r *Replica) bool { return !r.sameRows(&to.Batching) })
}

// relieve sets at once whatever the proof covers, before the next proof begins. Under load that takes long, and a
// setting that relieves the server, such as a shorter queue, must not wait for it. What cannot be set now is set with
// the proof.
func (v *Version) relieve(settings *modelrepo.Manifest, c residency.Candidate) {
	a, b := &settings.Batching, &c.Manifest.Batching
	if a.Mode != b.Mode || a.Tolerance != b.Tolerance {
		return
	}
	for _, r := range v.Replicas() {
		if r.flowFor(c) == r.flow {
			// An error shows again with the proof.
			_, _ = r.reconfigure(c)
		}
	}
}

// reproveAll proves every replica of the version again, and returns the replicas that take their places, with their
// settings.
func (v *Version) reproveAll(ctx context.Context, c residency.Candidate) (map[*Replica]*Replica, error) {
	why := v.demoted.Load()
	moved, err := v.reprove(ctx, c)
	switch {
	case err == nil && ctx.Err() != nil:
		return moved, context.Cause(ctx)
	case err == nil:
		v.lift(why)
	}
	for _, next := range moved {
		err = errors.Join(err, next.tune(next.unit.Plan(), settings(c.Manifest, next.verdict)))
	}
	return moved, err
}

// reconfigureAll makes every replica follow settings that its proof covers, and returns the replicas that take the
// place of a moved one.
func (v *Version) reconfigureAll(c residency.Candidate) (map[*Replica]*Replica, error) {
	moved := map[*Replica]*Replica{}
	var errs []error
	for _, r := range v.Replicas() {
		next, err := r.reconfigure(c)
		if r.Device.Lost() == nil { // else it leaves with its device
			errs = append(errs, err)
		}
		if next != nil {
			moved[r] = next
		}
	}
	return moved, errors.Join(errs...)
}

// reconfigure makes one replica follow settings that its proof covers. If these are of another flow, it returns a
// replica that shares the session and takes its place; else nil.
func (r *Replica) reconfigure(c residency.Candidate) (moved *Replica, err error) {
	judged := r.verdict.Under(&c.Manifest.Batching)
	now := r.unit.Plan().Whole()
	// Plans are immutable: executions under way follow the earlier one.
	next := *now
	next.Allowed, next.Most, next.Budget = judged.Allowed, judged.Most, time.Duration(c.Manifest.Batching.MaxBatchCost)
	next.Watch = watchOf(&c.Manifest.Batching)
	if next.Values != nil && (next.Most > now.Most || !slices.Equal(next.Allowed, now.Allowed)) {
		next.Values = valuesOf(next.Signature, judged) // each was proven for the sizes of that time
	}
	if r.flowFor(c) == r.flow {
		return nil, r.tune(&next, settings(c.Manifest, judged))
	}
	if !r.sit() {
		return nil, nil // its device was lost meanwhile
	}
	defer func() {
		if moved == nil {
			err = errors.Join(err, r.vacate())
		}
	}()
	moved = r.moved()
	moved.unit.Follow(&next)
	if err := moved.enroll(c, r); err != nil {
		return nil, err
	}
	if err := moved.tune(&next, settings(c.Manifest, judged)); err != nil {
		moved.dismiss()
		return nil, err
	}
	return moved, nil
}
