package sharedsched

import "time"

// A background batch may run only for as long as the next arrival can well wait: a caller who wants an answer soon must
// not notice that background work exists. Where even one row takes longer than that, or is thought to, background work
// would never run, nor would the estimate be corrected: then a batch may run once ten times its length has passed since
// the latest such one began, so that these take a tenth of the device at most.

// guard knows the smallest target seen on a device in the last second: a background batch may take a small part of it.
type guard struct {
	least [guardSteps]time.Duration // by step; 0: none
	step  int64                     // the latest
	long  int64                     // the step after that in which a batch began that took more
}

// began notes the cost of a background batch that starts.
func (g *guard) began(now Time, cost time.Duration) {
	if most, _ := g.most(now); most > 0 && cost > most {
		g.long = g.step + 1
	}
}

// saw notes the target of a foreground task; 0: it has none that counts.
func (g *guard) saw(now Time, target time.Duration) {
	if target == 0 {
		return
	}
	g.turn(now)
	if l := &g.least[g.step%guardSteps]; *l == 0 || target < *l {
		*l = target
	}
}

// turn forgets the steps that are over. A device that rested for long has seen nothing.
func (g *guard) turn(now Time) {
	step := int64(now) / int64(guardStep)
	for passed := min(step-g.step, guardSteps); passed > 0; passed-- {
		g.least[(step-passed+1)%guardSteps] = 0
	}
	g.step = max(g.step, step)
}

// most returns the most device time of one background batch, 0 if there is no bound, and the most of a batch whose row
// takes more.
func (g *guard) most(now Time) (most, long time.Duration) {
	g.turn(now)
	least := time.Duration(0)
	for _, l := range g.least {
		if l > 0 && (least == 0 || l < least) {
			least = l
		}
	}
	return least / guardShare, time.Duration(max(0, g.step-g.long)) * guardStep / guardShare
}

// next returns when more may be allowed: at the end of the step, when targets are forgotten.
func (g *guard) next() Time { return Time(g.step+1) * Time(guardStep) }

// mayBlock returns the most rows that a batch of the queue may have for the sake of tasks that may arrive while it
// runs; 0 if not even one. Only background work is bounded so, unless it is draining.
func (c *Core) mayBlock(now Time, q *queue) int {
	most, _, _ := c.fullBatch(q)
	if q.ring.Len() > 0 && classOf(q.ring.At(0).order) == foreground || q.version.closing || c.draining {
		return most
	}
	limit, long := q.device.guard.most(now)
	s := &q.version.settings
	if limit == 0 {
		return most
	}
	if q.ring.Len() > 0 {
		if t := &c.tasks[q.ring.At(0).Task]; t.alone || !s.Batched {
			// It is all or nothing: such a task cannot be cut to what the guard allows.
			if q.estimate(t.rows).Cost > max(limit, long) {
				return 0
			}
			return most
		}
	}
	if q.rowCost <= limit {
		return min(most, q.shape.MaxRows(limit, s.MaxBatchSize, s.padded))
	}
	// One row is dear: as many go along as cost as much again.
	most = min(most, q.shape.MaxRows(guardRows*q.rowCost, s.MaxBatchSize, s.padded))
	if q.estimate(s.padded(min(most, max(1, q.waiting)))).Cost > long {
		return 0
	}
	return most
}
