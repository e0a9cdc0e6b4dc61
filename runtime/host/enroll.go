package host

import (
	"context"
	"fmt"
	"time"

	"github.com/weftserve/weft/runtime/fleet"
	"github.com/weftserve/weft/runtime/modelrepo"
	"github.com/weftserve/weft/runtime/proof"
	"github.com/weftserve/weft/runtime/residency"
	"github.com/weftserve/weft/sharedsched"
)

// flowFor returns who is to own the share of the device that the replica uses.
func (r *replica) flowFor(c residency.Candidate) flowKey {
	return flowKey{flowName(r.model, r.number, c.Manifest.Fairness), r.device.ID(), c.Manifest.Weight}
}

// enroll adds the replica to the scheduler, unbatched and without limits: only its trial sends tasks yet. Its costs are
// expected to be those of the one whose place it takes, if that is on the same device, or else of one near it. Device
// memory that this one has taken is there for it only if they share a session, as after a move.
func (h *Host) enroll(c residency.Candidate, r, replaces *replica) error {
	r.flow = r.flowFor(c)
	id, err := h.flows.use(r.flow)
	if err != nil {
		return err
	}
	name := fmt.Sprintf("%s/%d", c.Model, c.Version.Number)
	r.id, err = h.sched.AddVersion(name, id, sharedsched.Settings{MaxBatchSize: 1, MaxQueue: 1})
	if err != nil {
		h.flows.release(r.flow)
		return err
	}
	from := replaces
	if from == nil {
		from = h.near(r.model, r.number, r.device)
	}
	if from != nil {
		h.sched.Inherit(r.id, from.id, from.seats == r.seats)
	}
	return nil
}

// near returns the replica of the version of the model that comes before a number, else of the first after it: what its
// executions take is the best guess for those that warming up will not measure. Only what is on the device counts,
// unless that is nil. It returns nil if there is none.
func (h *Host) near(model string, number int64, on *fleet.Device) *replica {
	h.mu.Lock()
	defer h.mu.Unlock()
	var all []*replica
	if m := h.residency.Model(model); m != nil {
		for _, v := range m.Versions {
			if v.Resident != nil {
				all = append(all, h.replicasOf(v.Resident.Replicas)...)
			}
		}
	}
	return nearest(all, number, on)
}

func nearest(all []*replica, number int64, on *fleet.Device) (best *replica) {
	for _, r := range all {
		n := r.number
		switch {
		case n == number, on != nil && r.device != on:
		case best == nil, n < number && (best.number > number || n > best.number), best.number > number &&
			n < best.number:
			best = r
		}
	}
	return best
}

// dismiss takes a replica that failed its trial out of the scheduler. None of its tasks is left.
func (h *Host) dismiss(r *replica) {
	if err := h.sched.RemoveVersion(context.Background(), r.id); err != nil {
		h.log.Error("a version that failed to load stays in the scheduler", "model", r.model, "version", r.number,
			"cause", err)
		return
	}
	r.untune()
	h.flows.release(r.flow)
}

var paddingPolicies = map[modelrepo.Padding]sharedsched.PaddingPolicy{
	modelrepo.PadUp: sharedsched.PadUp, modelrepo.BatchDown: sharedsched.BatchDown,
	modelrepo.MinimizeCost: sharedsched.MinimizeCost,
}

// settings are what the scheduler is told of a version that is ready.
func settings(m *modelrepo.Manifest, v proof.Verdict) sharedsched.Settings {
	b := &m.Batching
	return sharedsched.Settings{
		Batched:           v.Batched,
		MaxBatchSize:      max(v.Most, 1),
		MaxBatchCost:      time.Duration(b.MaxBatchCost),
		BatchTimeout:      time.Duration(b.BatchTimeout),
		Adaptive:          b.Adaptive,
		MaxQueue:          b.MaxQueue,
		WaitWhenFull:      b.OnFull == modelrepo.WaitWhenFull,
		MaxRequestRows:    requestRows(b, v),
		AllowedBatchSizes: v.Allowed,
		RowMemory:         v.RowMemory,
		Padding:           paddingPolicies[b.Padding],
		TargetLatency:     time.Duration(m.TargetLatency),
		MaxLatency:        time.Duration(m.MaxLatency),
	}
}

// requestRows returns the most rows of one request. Where requests are not batched there is no such bound: what looks
// like rows may be something else, such as the samples of a recording.
func requestRows(b *modelrepo.Batching, v proof.Verdict) int {
	if !v.Batched {
		return 0
	}
	return b.MaxRequestRows
}
