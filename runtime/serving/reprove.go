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

// needsProof reports whether a manifest asks for batches that the version's proof does not cover. It follows settings
// now, and was proven by another manifest.
func (v *Version) needsProof(settings, proven, to *modelrepo.Manifest) bool {
	a, b := &proven.Batching, &to.Batching
	return a.Mode != b.Mode || a.Tolerance != b.Tolerance || b.MaxBatchSize > a.MaxBatchSize ||
		b.MaxBatchCost > a.MaxBatchCost ||
		v.demoted.Load() != nil && !residency.SameGrouping(&settings.Batching, b) ||
		slices.ContainsFunc(v.Replicas(),
			func(r *Replica) bool { return !r.verdict.Covers(a.AllowedBatchSizes, b.AllowedBatchSizes) })
}

// sameRows reports whether a manifest gives a replica's inputs the batch dimensions that they are published with.
func (r *Replica) sameRows(b *modelrepo.Batching) bool {
	d, err := r.decide(residency.Candidate{Manifest: &modelrepo.Manifest{Batching: *b}})
	return err == nil && sameRows(d.Signature, r.signature)
}

func sameRows(a, b *tensor.Signature) bool {
	return slices.EqualFunc(a.Inputs, b.Inputs, func(x, y tensor.Spec) bool { return x.BatchDim == y.BatchDim })
}

// reprove proves every replica of a version again for a manifest, and returns the replicas that are to take their
// places, by place; they are not in batching yet. After an error there are none.
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

// errOtherRows says that requests to the newly proven replica have other rows than those to the serving one, so that it
// cannot take its place.
var errOtherRows = errors.New("the proof gives its inputs other batch dimensions")

// reprove is that for one of them; nil if its device was lost meanwhile.
func (r *Replica) reprove(ctx context.Context, c residency.Candidate) (moved *Replica, err error) {
	if !r.sit() {
		return nil, nil
	}
	next := r.moved()
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
	if !sameRows(next.signature, r.signature) {
		return nil, errOtherRows
	}
	return next, nil
}

// moved returns a replica that uses r's session, and is to take r's place. The caller has taken a seat for it.
func (r *Replica) moved() *Replica {
	next := r.newReplica(&Replica{
		Device: r.Device, Opened: r.Opened, first: r.first, memory: r.memory, giveCopy: r.giveCopy,
		said: r.said, signature: r.signature, bare: r.bare, verdict: r.verdict, proof: r.proof, seats: r.seats,
	}, r.unit.Loaded)
	next.perRow.Store(r.perRow.Load())
	return next
}

// lift ends the demotion of a version that was proven again since, and makes audits watch it as if it were new.
func (v *Version) lift(why *string) {
	v.tuning.Lock()
	defer v.tuning.Unlock()
	v.demoted.CompareAndSwap(why, nil)
	v.proofs.Add(1)
	v.audit.Restart()
}
