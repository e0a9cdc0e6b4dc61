package sharedsched

import "time"

// A running batch cannot be taken back: where a single row of one flow takes longer than another has until its target,
// every task that comes while the row runs misses that target. No order of the queues helps, so that the device cap
// leaves such targets out (cap.go), and people are to know of it.

// Exposure is a target that cannot be kept while a row of another flow runs on the same device.
type Exposure struct {
	Flow   string        // whose target it is; "": there is none
	Target time.Duration // the tenth percentile of the flow's, rounded down to a step of the histogram
	Beside string        // the flow whose single row takes longest on the device
	Batch  time.Duration // expected device time of that row
}

// exposure is an Exposure as a round over all flows finds it.
type exposure struct {
	flow, beside  *flow
	target, batch time.Duration
}

// expose notes the target of a flow that the cap leaves out, if it is the least of those for which the dearest row is
// the reason. Others are left out for what their own flow asks for, or how long its rows take.
//
// Only targets that somebody named count, for nobody misses one that was derived, and only measured costs, for a guess
// must blame no flow. Where there are several lanes others may be free, or a short batch starts beside a long one
// (handover.go).
func (s *shares) expose(f *flow, target time.Duration) {
	r, to := &f.recent, s.last.dearest
	if target == 0 || f.beyond || !r.named || !r.known || target < r.row {
		return
	}
	if to == nil || to == f || !to.recent.known || f.device.Lanes > 1 {
		return
	}
	if e := &s.round.exposed; e.flow == nil || target < e.target {
		*e = exposure{flow: f, beside: to, target: target, batch: s.last.row}
	}
}

// exposure returns what the latest round found on a device. Where nothing is started rounds stand still, so that the
// flows may be gone, or their demand forgotten.
func (c *Core) exposure(now Time, d *device) Exposure {
	e := &d.shares.last.exposed
	for _, f := range [...]*flow{e.flow, e.beside} {
		if f == nil || c.flows[f.id] != f || now.Sub(f.recent.seen) > targetsFor {
			return Exposure{}
		}
	}
	return Exposure{Flow: e.flow.name, Target: e.target, Beside: e.beside.name, Batch: e.batch}
}
