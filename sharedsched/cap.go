package sharedsched

import "time"

// The device cap bounds the device time of one batch by how long the most impatient flow can wait: a running batch
// cannot be taken back, so every task that arrives meanwhile waits for its end. It is all but capSpare of the least,
// over the flows that ask for no more than their share, of each one's tenth percentile of targets, less the margins
// that are kept for answers' ways. One impatient caller among many does not move that percentile, and a target that
// could not be met even if every batch were one row is left out.
//
// A smaller batch costs the tenant whose batch it is: the cap gives way where that weighs more.
//
//   - No batch is cut below the size of the greatest power, which is throughput over latency (Kleinrock, On Flow
//     Control in Computer Networks, ICC 1978). Below it a batch gets slower per row faster than it gets shorter: where
//     a batch costs a + b·rows, at a/b rows, with half of the throughput that there can be.
//   - A flow within its share is cut only as far as its waiting tasks are not nearly late for it.
//
// Where each lane has a processor of its own, a target need not be left out for the rows of others. If the other lanes
// suffice for all that is asked of flows whose single row takes longer than the cap would be, a lane that is free
// while all others have batches beyond the cap is for foreground batches within it only.

// batchCap is the device cap of one device.
type batchCap struct {
	most     time.Duration // device time of one batch; 0: no bound
	keeps    bool          // one lane is for batches within it only
	revision uint64        // counts changes of both
}

// follow sets the cap by what the latest round over all flows found.
func (c *Core) follow(d *device) {
	s := &d.shares.last
	least, keen := capFor(s.least), capFor(s.keen)
	others := 1 - 1/float64(d.parallel()) // of the lanes
	if keen > 0 && s.row > keen && others > 0 && d.shares.mean.long <= others && !c.variant.NoKeptLane {
		c.setCap(d, keen, true)
	} else {
		c.setCap(d, least, false)
	}
}

// setCap sets the cap, and whether a lane is kept.
func (c *Core) setCap(d *device, most time.Duration, keeps bool) {
	b := &d.cap
	if most == b.most && keeps == b.keeps {
		return
	}
	b.most, b.keeps = most, keeps
	b.revision++
	for _, q := range c.queues {
		if keeps && q != nil && q.device == d && q.stage != resting && q.class == foreground {
			d.enlist(q) // others are short
		}
	}
}

// capFor returns the most device time of one batch for the sake of a target, 0 for none: a part of what is left of it
// without the margins that are kept for answers' ways.
func capFor(target time.Duration) time.Duration {
	left := time.Duration(endBy(Time(target), 0))
	return left - left/capSpare
}

// isLong reports whether the next batch of the queue is beyond the cap. What is closing is to end.
func (q *queue) isLong() bool { return q.cost > q.device.cap.most && !q.version.closing }

// enlist notes whether the lane that is kept is for a queue that is ready.
func (d *device) enlist(q *queue) {
	if q.isLong() {
		d.short.Remove(q.id)
	} else {
		d.short.Set(q.id, int64(q.due))
	}
}

// keepsLast reports whether a lane that is free now is kept for batches within the cap: all others have longer ones.
func (c *Core) keepsLast(d *device) bool {
	if !d.cap.keeps || d.inFlight < d.Lanes-1 || c.draining || c.hurrying {
		return false
	}
	for _, l := range d.lanes {
		if l.running && l.est.Cost <= d.cap.most {
			return false
		}
	}
	return true
}

// impatience returns how soon the flow wants its answers, if that counts. row is the dearest execution of a single row,
// which may run when its task arrives.
func (f *flow) impatience(row time.Duration) (time.Duration, bool) {
	r := &f.recent
	target := r.targets.low()
	return target, r.targets.n > 0 && !f.beyond && target >= r.row+row
}

// leastUnderCap returns the rows below which the cap cuts no batch of at most that many: the least power of two that is
// about as good as the one of the greatest power.
func (q *queue) leastUnderCap(most int) int {
	power := func(rows int) float64 {
		cost := float64(q.shape.Estimate(q.version.settings.padded(rows)).Cost)
		return float64(rows) / cost / cost
	}
	best := power(most)
	for n := 1; n < most; n *= 2 {
		best = max(best, power(n))
	}
	for n := 1; n < most; n *= 2 {
		if power(n) >= best*goodPower {
			return n
		}
	}
	return most
}

// mayTakeNow returns the most rows that the next batch of the queue may have under the device cap.
func (c *Core) mayTakeNow(now Time, q *queue) int {
	most, _, _ := c.fullBatch(q)
	if q.underCap >= min(most, q.waiting) || q.foreground == 0 {
		return most
	}
	if q.flow.beyond {
		return q.underCap
	}
	d := q.device
	last := Time(q.ring.At(q.foreground - 1).Target)
	left := float64(last.Sub(now)-last.Sub(now)/nearlyLate) * float64(d.parallel())
	left -= float64(d.work - q.work) // for all that waits in q
	for rows := q.underCap; rows < most; rows *= 2 {
		if float64(q.estimate(q.version.settings.padded(rows)).Cost)*float64(q.waiting) <= left*float64(rows) {
			return rows
		}
	}
	return most
}
