package sharedsched

import (
	"slices"
	"time"

	"github.com/weftserve/weft/sharedsched/fairq"
)

// A queue is resting while no batch of it may start: it is empty, holds a partial batch for its timeout, or waits for a first
// measurement. Else it is pending, and becomes demanding when its batch is full or, at a pick, when the batch must start before
// the dearest batch that could go first would end. Demanding queues make their flow one that fairness is owed to.

// refresh brings the queue's stage up to date. Every change of a queue is followed by it, at the latest at the next pick.
func (c *Core) refresh(now Time, q *queue) {
	if q.served || q.ring.n == 0 {
		q.unheld = false
	}
	ready, until := c.readiness(now, q)
	if until != Never {
		c.holds.Set(q.id, int64(until)) // Advance looks again then
		q.device.held.Set(q.id, int64(c.startBy(q)))
	} else {
		c.holds.Remove(q.id)
		q.device.held.Remove(q.id)
	}
	if ready && c.classNow(q) == background && c.mayBlock(now, q) == 0 {
		ready = false // until the guard opens, or what comes meanwhile has been forgotten
		c.holds.Set(q.id, int64(now.Add(guardStep)))
	}
	// A queue that demands goes on demanding until it is served, also when its batch is not full any more because tasks left: what is
	// owed must not be lost by going back and forth.
	served := q.served
	q.served = false
	if !ready {
		c.rest(q)
		return
	}
	k := c.classNow(q)
	if q.stage != resting && q.class != k {
		c.rest(q) // each class has heaps of its own
	}
	d := q.device
	q.class = k
	full := c.plan(q)
	if k == foreground {
		d.blocks.Set(q.id, -int64(q.cost))
	}
	switch s := &q.version.settings; {
	case k == background, full, q.stage == demanding && !served, s.BatchTimeout > 0, q.version.closing, c.draining,
		q.latest <= now.Add(d.block()), c.variant.AllDemand:
		c.demand(d, q)
	default:
		if q.stage == demanding {
			c.yield(q)
		}
		q.stage = pending
		d.pending.Set(q.id, int64(q.latest))
	}
}

// plan works out what the queue's next batch costs and by when it must start so that its first task meets its target. It reports
// whether waiting would not make the batch larger.
func (c *Core) plan(q *queue) (full bool) {
	head := q.ring.at(0)
	s := &q.version.settings
	if t := &c.tasks[head.task]; t.alone || !s.Batched {
		q.cost, full = q.estimate(t.rows).Cost, true
	} else {
		most, cost, _ := c.fullBatch(q)
		if full = q.waiting >= most; full {
			q.cost = cost
		} else {
			q.cost = q.estimate(s.padded(q.waiting)).Cost
		}
	}
	q.due = head.target // of its priority nobody is due before it: tasks stand in the order of targets
	q.latest = endBy(q.due, c.tasks[head.task].arrival) - Time(q.cost) - Time(q.cost)/margin
	if c.variant.LeastSlack {
		q.due = q.latest
	}
	return full
}

// margin is the part by which a batch should start earlier than its estimate says, and of the time to its target that is kept for
// batches that grow meanwhile and others that are due with it. As much again, up to delivery, is for timers and the answer's way.
const (
	margin   = 20
	delivery = Time(time.Millisecond)
)

// endBy returns when a batch should end that answers a task by its target.
func endBy(target, arrival Time) Time {
	spare := (target - arrival) / margin
	return target - spare - min(spare, delivery)
}

// block returns what the dearest batch that may start next on the device costs: so long may whoever is not served now have to wait.
func (d *device) block() time.Duration {
	_, key, _ := d.blocks.Min()
	return -time.Duration(key)
}

// demand makes the queue demanding, or moves it among those that are.
func (c *Core) demand(d *device, q *queue) {
	if q.stage == pending {
		d.pending.Remove(q.id)
	}
	q.stage = demanding
	f := q.flow
	f.demand[q.class].Set(q.local, int64(q.due))
	c.tell(f, q.class)
}

// rest takes the queue out of everything that batches are picked from.
func (c *Core) rest(q *queue) {
	d := q.device
	d.blocks.Remove(q.id)
	switch q.stage {
	case resting:
	case pending:
		d.pending.Remove(q.id)
	case demanding:
		c.yield(q)
	}
	q.stage = resting
}

// yield takes the queue out of those that demand service.
func (c *Core) yield(q *queue) {
	q.flow.demand[q.class].Remove(q.local)
	c.tell(q.flow, q.class)
}

// tell tells the fair queue whether the flow demands service, and by when.
func (c *Core) tell(f *flow, k class) {
	if local, due, ok := f.demand[k].Min(); ok {
		f.first[k] = f.locals[local]
		f.device.fair[k].Demand(fairq.Flow(f.id), due)
	} else {
		f.first[k] = nil
		f.device.fair[k].Rest(fairq.Flow(f.id))
	}
}

// promote makes queues demanding whose batch must start before the dearest one that could go first would end: pending ones, and
// those that are held for their batch timeout. It is done at picks only: with nothing to pick, being urgent changes nothing.
func (c *Core) promote(now Time, d *device) {
	soon := now.Add(d.block() + d.block()/margin)
	for {
		id, latest, ok := d.pending.Min()
		if !ok || Time(latest) > soon {
			break
		}
		c.demand(d, c.queues[id])
	}
	for {
		id, latest, ok := d.held.Min()
		if !ok || Time(latest) > soon {
			break
		}
		c.queues[id].unheld = true
		c.refresh(now, c.queues[id])
	}
}

// classNow returns the class in which the queue is served: that of its head, but what is draining is waited for.
func (c *Core) classNow(q *queue) class {
	if q.ring.n == 0 || q.version.closing || c.draining {
		return foreground
	}
	return classOf(q.ring.at(0).order)
}

// readiness reports whether a batch may start, and if not, the time at which waiting alone will make it so.
func (c *Core) readiness(now Time, q *queue) (ready bool, until Time) {
	if q.ring.n == 0 {
		return false, Never
	}
	most, _, _ := c.fullBatch(q)
	if q.learning {
		// Its first measurements are being taken; more of the unknown would only hold the device for longer.
		return false, Never
	}
	s := &q.version.settings
	// Where nothing can join, or nobody will come any more, holding would gain nothing. What has begun is not held a second time.
	if s.BatchTimeout == 0 || !s.Batched || q.version.closing || c.draining || c.hurry || q.begun || q.unheld || c.tasks[q.ring.at(0).task].alone {
		return true, Never
	}
	if q.waiting >= most {
		return true, Never
	}
	if end := c.holdEnd(q); end > now {
		return false, end
	}
	return true, Never
}

// Of the time that is left when a hold for a limit begins, a part is kept at its end: timers fire late, and the answer must get
// to its caller.
const (
	holdShare   = 10 // one tenth
	maxHoldKept = 10 * time.Millisecond
	timerSlack  = 200 * time.Microsecond
)

// holdEnd returns when a partial batch stops being held: at the batch timeout, or when it must start.
func (c *Core) holdEnd(q *queue) Time {
	return min(q.oldest.Add(q.version.settings.BatchTimeout), c.startBy(q))
}

// startBy returns by when a held batch must start for all of its tasks to meet their limits, and the targets that were named: who
// asks for batches to be held accepts that answers come later than by the target that each task is given; Never if there are none.
func (c *Core) startBy(q *queue) Time {
	most, full, high := c.fullBatch(q)
	latest := Never
	if q.wanted != Never {
		cost := q.estimate(q.version.settings.padded(min(q.waiting, most))).Cost
		latest = q.wanted - Time(cost+cost/margin)
	}
	if q.soonest != Never {
		kept := min(q.soonest.Sub(q.oldest)/holdShare, maxHoldKept) + timerSlack
		latest = min(latest, q.soonest-Time(max(full, high)+kept))
	}
	return latest
}

// touch has the queue refreshed at the end of the event. Where many tasks leave at once, looking at their queues once is enough.
func (c *Core) touch(q *queue) {
	if !q.touched {
		q.touched = true
		c.touched = append(c.touched, q)
	}
}

// refreshTouched ends an event.
func (c *Core) refreshTouched(now Time) {
	for _, q := range c.touched {
		q.touched = false
		c.rescan(q)
		c.refresh(now, q)
		if q.ring.n == 0 && q.running == 0 && len(q.key) > maxIdleKey && c.queues[q.id] == q {
			c.dropQueue(q)
		}
	}
	c.touched = c.touched[:0]
}

// touchHeld has queues refreshed that may be held for a batch timeout, when what batches cost or may cost has changed.
func (c *Core) touchHeld(d *device) {
	if now := d.cap.revision + d.state.Revision(); now != d.looked {
		d.looked = now
		for _, v := range c.versions {
			if v != nil && v.settings.BatchTimeout > 0 && v.flow.device == d {
				c.touchVersion(v)
			}
		}
	}
}

// touchVersion follows a change of the version's settings or costs.
func (c *Core) touchVersion(v *version) {
	// In order of their ids, for what one demands may depend on what another's batch costs.
	first := len(c.touched)
	for _, q := range v.queues {
		q.asOf = 0
		c.touch(q)
	}
	slices.SortFunc(c.touched[first:], func(a, b *queue) int { return int(a.id - b.id) })
}

// touchShape follows a change of what is known of a shape's costs.
func (c *Core) touchShape(s *shape) {
	for _, q := range s.queues {
		q.asOf = 0
		c.touch(q)
	}
}

// rescan finds again what is kept of the tasks of the queue where there is a batch timeout, after some of them left.
func (c *Core) rescan(q *queue) {
	if q.version.settings.BatchTimeout == 0 {
		return
	}
	q.oldest, q.soonest, q.wanted, q.begun = Never, Never, Never, false
	for i := range q.ring.n {
		t := &c.tasks[q.ring.at(i).task]
		q.oldest, q.soonest, q.wanted = min(q.oldest, t.arrival), min(q.soonest, t.limit), min(q.wanted, t.wanted)
		q.begun = q.begun || t.next > 0
	}
}

// Advance lets time pass: tasks whose limit has come are dropped and queues that were held long enough become ready.
func (c *Core) Advance(now Time, acts []Action) []Action {
	// Limits first: whether a queue is held on depends on who is left in it.
	for {
		slot, ok := c.limits.due(now, &c.slab)
		if !ok {
			break
		}
		c.log.drop(now, c.tasks[slot].queue.version, &c.tasks[slot], DropExpired, 0)
		acts = c.stop(now, slot, EndExpired, acts)
	}
	for i := range c.devices {
		if d := &c.devices[i]; d.turn <= now {
			d.turn = 0
		}
	}
	for {
		id, at, ok := c.holds.Min()
		if !ok || Time(at) > now {
			break
		}
		c.refresh(now, c.queues[id])
	}
	if len(c.bounded) > 0 {
		c.raiseBounds(now)
	}
	c.refreshTouched(now)
	return acts
}

// NextWake returns a time before which Advance will have nothing to do if nothing else happens, or Never.
func (c *Core) NextWake() Time {
	wake := c.limits.earliest()
	if _, at, ok := c.holds.Min(); ok {
		wake = min(wake, Time(at))
	}
	for i := range c.devices {
		if d := &c.devices[i]; d.turn > 0 && d.inFlight < d.Lanes && d.hasWork() {
			wake = min(wake, d.turn)
		}
	}
	return wake
}
