package serving

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/weftserve/weft/runtime/execution"
	"github.com/weftserve/weft/runtime/fleet"
	"github.com/weftserve/weft/runtime/modelrepo"
	"github.com/weftserve/weft/runtime/residency"
	"github.com/weftserve/weft/runtime/tensor"
)

// A manifest that asks for batches that no proof has seen is followed without opening the model again: the session that
// serves is proven again while its requests run, under another number in the scheduler, and that one takes the place of
// the first.

// needsProof reports whether the manifest to asks for batches that the version's proof does not cover: another mode or
// tolerance, larger or longer batches, other sizes, or other groups for a version that is out of batching. settings is
// the manifest that it follows now, proven the one that its proof was made with.
func (v *Version) needsProof(settings, proven, to *modelrepo.Manifest) bool {
	a, b := &proven.Batching, &to.Batching
	return a.Mode != b.Mode || a.Tolerance != b.Tolerance || b.Largest() > a.Largest() ||
		b.MaxBatchCost > a.MaxBatchCost ||
		v.demoted.Load() != nil && !residency.SameGrouping(&settings.Batching, b) ||
		slices.ContainsFunc(v.Replicas(),
			func(r *Replica) bool { return !r.verdict.Covers(a, b) })
}

// sameRows reports whether a manifest leaves a replica's inputs the batch dimensions that they are published with.
func (r *Replica) sameRows(b *modelrepo.Batching) bool {
	d, err := r.decide(residency.Candidate{Manifest: &modelrepo.Manifest{Batching: *b}})
	return err == nil && sameRows(d.Signature, r.signature)
}

// sameRows compares the batch dimensions of two signatures with the same inputs.
func sameRows(a, b *tensor.Signature) bool {
	return slices.EqualFunc(a.Inputs, b.Inputs, func(x, y tensor.Spec) bool { return x.BatchDim == y.BatchDim })
}

// reprove proves every replica of a version again for a manifest, and returns the replicas that take their places, by
// the replica in whose place they come. They are in the scheduler and not batched yet. Replicas whose device is lost
// have no successor. After an error there are none, and those made so far are discarded.
func (v *Version) reprove(ctx context.Context, c residency.Candidate) (map[*Replica]*Replica, error) {
	moved := map[*Replica]*Replica{}
	release := v.shared.proving.hold(ctx)
	defer release()
	for _, r := range v.Replicas() {
		var next *Replica // not to be looked at here once it is left behind
		err := r.Device.During(ctx, func(ctx context.Context) (err error) {
			next, err = r.reprove(ctx, c)
			return err
		}, func(err error) {
			if err == nil && next != nil {
				v.shared.Owner.Discard(next)
			}
		})
		// The other replicas are proven nevertheless.
		if errors.Is(err, fleet.ErrLeftBehind) || err != nil && r.Device.Lost() != nil {
			continue // it leaves with its device
		}
		if err != nil {
			for _, next := range moved {
				v.shared.Owner.Discard(next)
			}
			return nil, err
		}
		if next != nil {
			moved[r] = next
		}
	}
	return moved, nil
}

// errOtherRows says that the new proof gives requests other rows than the serving replica. Requests that were checked
// already would be wrong for it, so that the version must be loaded again.
var errOtherRows = errors.New("the proof gives its inputs other batch dimensions")

// reprove proves one replica again, under another number of the scheduler, while r serves. The result shares r's
// session and has a seat in it. It is nil if the device was lost meanwhile.
func (r *Replica) reprove(ctx context.Context, c residency.Candidate) (moved *Replica, err error) {
	if !r.sit() {
		return nil, nil
	}
	next := r.moved()
	// Findings about r's proof then say nothing about this one, and the other way round.
	next.proof++
	enrolled := false
	defer func() {
		if err == nil {
			return
		}
		if enrolled {
			next.dismiss()
		}
		err = errors.Join(err, r.vacate())
	}()
	d, err := next.decide(c)
	if err != nil {
		return nil, err
	}
	next.unit.Follow(execution.NewPlan(d.Signature, time.Duration(c.Manifest.Batching.MaxBatchCost)))
	if err := next.enroll(c, r); err != nil {
		return nil, err
	}
	enrolled = true
	if _, err := next.prove(ctx, c, d); err != nil {
		return nil, err
	}
	// Requests are in flight that were checked by r's signature, and episodes have rows of its outputs.
	if !sameRows(next.signature, r.signature) || !sameKept(r.state, next.signature, r.signature) {
		return nil, errOtherRows
	}
	return next, nil
}

// moved returns a replica that shares r's session and is going to take r's place. The caller has taken a seat for it.
func (r *Replica) moved() *Replica {
	next := r.newReplica(&Replica{
		Device: r.Device, Opened: r.Opened, first: r.first, memory: r.memory, giveCopy: r.giveCopy,
		said: r.said, signature: r.signature, bare: r.bare, verdict: r.verdict, state: r.state, proof: r.proof,
		seats: r.seats,
	}, r.unit.Loaded)
	next.perRow.Store(r.perRow.Load())
	return next
}

// lift ends the demotion of a version that was proven again since, and has audits watch it as if it were new. why is
// the demotion from before the proof: one that was found during it stays.
func (v *Version) lift(why *string) {
	v.tuning.Lock()
	defer v.tuning.Unlock()
	v.demoted.CompareAndSwap(why, nil)
	v.proofs.Add(1)
	v.audit.Restart()
}
