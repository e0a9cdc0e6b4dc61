package serving

import (
	"context"
	"fmt"

	"github.com/weftserve/weft/runtime/fleet"
	"github.com/weftserve/weft/runtime/modelrepo"
	"github.com/weftserve/weft/runtime/residency"
	"github.com/weftserve/weft/sharedsched"
)

// flowFor returns the flow that a replica belongs to under the manifest of a candidate.
func (r *Replica) flowFor(c residency.Candidate) flowKey {
	m := c.Manifest
	return flowKey{flowName(r.Model, r.Number, m.Fairness), r.Device.ID(), m.Weight, m.Fairness == modelrepo.FairIdentity}
}

// enroll adds the replica to the scheduler, unbatched and without limits: until tune only its proof sends tasks. Its
// costs are expected to be those of from, unless that is nil. The device memory that from has taken counts for this one
// only if they share a session, as after a move.
func (r *Replica) enroll(c residency.Candidate, from *Replica) error {
	r.flow = r.flowFor(c)
	id, err := r.shared.flows.use(r.flow)
	if err != nil {
		return err
	}
	name := fmt.Sprintf("%s/%d", c.Model, c.Version.Number)
	r.id, err = r.shared.sched.AddVersion(name, id, sharedsched.Settings{MaxBatchSize: 1, MaxQueue: 1})
	if err != nil {
		r.shared.flows.release(r.flow)
		return err
	}
	if from != nil {
		r.shared.sched.Inherit(r.id, from.id, from.seats == r.seats)
	}
	return nil
}

// Nearest returns the replica of the version with the next lower number, else of the next higher one: its costs are the
// best guess for executions that warm-up does not measure. Only replicas on the device count, unless that is nil. It
// returns nil if there is none.
func Nearest(all []*Replica, number int64, on *fleet.Device) (best *Replica) {
	for _, r := range all {
		n := r.Number
		switch {
		case n == number, on != nil && r.Device != on:
		case best == nil, n < number && (best.Number > number || n > best.Number),
			best.Number > number && n < best.Number:
			best = r
		}
	}
	return best
}

// dismiss takes a replica that failed its proof out of the scheduler. None of its tasks is left, so that this does not
// wait.
func (r *Replica) dismiss() {
	if err := r.shared.sched.RemoveVersion(context.Background(), r.id); err != nil {
		r.shared.Log.Error("failed replica stays in the scheduler", "event", "replica_dismissal_failed",
			"model", r.Model, "version", r.Number, "cause", err)
		return
	}
	r.untune()
	r.shared.flows.release(r.flow)
}
