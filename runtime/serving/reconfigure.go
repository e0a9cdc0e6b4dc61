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

// Follow makes the version follow the settings of a candidate's manifest. They apply from the next batch on. A change
// of the owner of the share of the device, or of its size, moves the replicas in the scheduler. It follows settings
// now, and its batching was proven by another manifest.
func (v *Version) Follow(ctx context.Context, c residency.Candidate,
	settings, proven *modelrepo.Manifest,
) (f Followed, err error) {
	switch {
	case v.needsOtherRows(proven, c.Manifest):
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

// needsOtherRows reports whether a manifest would give requests other rows than a version is published with:
// a request that was checked by one set of batch dimensions cannot be run by another, so that callers must see another
// version in its place.
func (v *Version) needsOtherRows(proven, to *modelrepo.Manifest) bool {
	return proven.Batching.Mode != to.Batching.Mode &&
		slices.ContainsFunc(v.Replicas(), func(r *Replica) bool { return !r.sameRows(&to.Batching) })
}

// relieve makes the replicas follow at the next batch in all that their proof covers: under load the next proof takes
// long, and a setting that relieves it, such as a shorter queue, is not to wait. What cannot be set now is with the
// proof.
func (v *Version) relieve(settings *modelrepo.Manifest, c residency.Candidate) {
	a, b := &settings.Batching, &c.Manifest.Batching
	if a.Mode != b.Mode || a.Tolerance != b.Tolerance {
		return
	}
	for _, r := range v.Replicas() {
		if r.flowFor(c) == r.flow {
			_, _ = r.reconfigure(c)
		}
	}
}

// reproveAll proves every replica of the version again, and returns the replicas that are to take their places, by
// place, tuned.
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

// reconfigureAll makes every replica follow, and returns the ones that take the place of one that was moved, by place.
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

// reconfigure makes one replica follow, and returns the one that is to take its place where it was moved.
func (r *Replica) reconfigure(c residency.Candidate) (moved *Replica, err error) {
	judged := r.verdict.Under(&c.Manifest.Batching)
	now := r.unit.Plan().Whole()
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
