package host

import (
	"context"
	"fmt"
	"time"

	"github.com/weftserve/weft/runtime/modelrepo"
	"github.com/weftserve/weft/sharedsched"
)

// flowFor returns who is to own the share of the device that the version uses.
func (v *version) flowFor(c candidate) flowKey {
	return flowKey{flowName(v.model, v.number, c.manifest.Fairness), v.opened.Device, c.manifest.Weight}
}

// enroll adds the version to the scheduler, unbatched and without limits: only its trial sends tasks yet. Its costs are expected
// to be those of the version whose place it takes, or else of one near it.
func (h *Host) enroll(c candidate, v, replaces *version) error {
	v.flow = v.flowFor(c)
	id, err := h.flows.use(v.flow)
	if err != nil {
		return err
	}
	name := fmt.Sprintf("%s/%d", c.model, c.version.Number)
	v.id, err = h.sched.AddVersion(name, id, sharedsched.Settings{MaxBatchSize: 1, MaxQueue: 1})
	if err != nil {
		h.flows.release(v.flow)
		return err
	}
	from := replaces
	if from == nil || from.opened.Device != v.opened.Device {
		from = h.before(v)
	}
	if from != nil {
		h.sched.Inherit(v.id, from.id)
	}
	return nil
}

// before returns the resident version of the same model on the same device that comes before v, else the first after it: what
// its executions take is the best guess for those of v that warming up will not measure. It returns nil if there is none.
func (h *Host) before(v *version) *version {
	var best *version
	// Numbers are unique, so that the order of iteration does not matter.
	for _, w := range *h.byID.Load() {
		if w.model != v.model || w.number == v.number || w.opened.Device != v.opened.Device {
			continue
		}
		switch {
		case best == nil, w.number < v.number && (best.number > v.number || w.number > best.number),
			best.number > v.number && w.number < best.number:
			best = w
		}
	}
	return best
}

// dismiss takes a version that failed its trial out of the scheduler. None of its tasks is left.
func (h *Host) dismiss(v *version) {
	if err := h.sched.RemoveVersion(context.Background(), v.id); err != nil {
		h.log.Error("a version that failed to load stays in the scheduler", "model", v.model, "version", v.number, "cause", err)
		return
	}
	h.flows.release(v.flow)
}

var paddingPolicies = map[modelrepo.Padding]sharedsched.PaddingPolicy{
	modelrepo.PadUp: sharedsched.PadUp, modelrepo.BatchDown: sharedsched.BatchDown, modelrepo.MinimizeCost: sharedsched.MinimizeCost,
}

// settings are what the scheduler is told of a version that is ready.
func settings(m *modelrepo.Manifest, v verdict) sharedsched.Settings {
	b := &m.Batching
	return sharedsched.Settings{
		Batched:           v.batched,
		MaxBatchSize:      max(v.most, 1),
		MaxBatchCost:      time.Duration(b.MaxBatchCost),
		BatchTimeout:      time.Duration(b.BatchTimeout),
		Adaptive:          b.Adaptive,
		MaxQueue:          b.MaxQueue,
		WaitWhenFull:      b.OnFull == modelrepo.WaitWhenFull,
		MaxRequestRows:    requestRows(b, v),
		AllowedBatchSizes: v.allowed,
		Padding:           paddingPolicies[b.Padding],
		TargetLatency:     time.Duration(m.TargetLatency),
		MaxLatency:        time.Duration(m.MaxLatency),
	}
}

// requestRows returns the most rows of one request. Where requests are not batched there is no such bound: what looks like rows may
// be something else, such as the samples of a recording.
func requestRows(b *modelrepo.Batching, v verdict) int {
	if !v.batched {
		return 0
	}
	return b.MaxRequestRows
}
