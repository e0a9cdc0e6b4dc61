package sharedsched

// A queue is resting while no batch of it may start: it is empty, holds a partial batch for its timeout, or waits for a
// first measurement. Else it is pending, and becomes demanding when its batch is full, when no more tasks may wait, or,
// at a pick, when the batch must start before others that could go first would end (promote). A flow demands service
// while one of its queues does.

// stage is where a queue stands on its way to the device.
type stage uint8

const (
	resting   stage = iota // no batch may start
	pending                // a batch may start, but nothing is lost by letting others go first
	demanding              // the batch is full, or must start soon to meet its target
)

// String returns resting, pending or demanding.
func (s stage) String() string { return [...]string{"resting", "pending", "demanding"}[s] }

// refresh brings the queue's stage up to date. Every change of a queue is followed by it, at the latest at the next
// pick.
func (c *Core) refresh(now Time, q *queue) {
	if q.served || q.ring.Len() == 0 {
		q.unheld = false
	}
	c.company(q)
	ready, until := c.readiness(now, q)
	if until != Never {
		c.holds.Set(q.id, int64(until)) // Advance looks again then
		q.device.held.Set(q.id, int64(c.startBy(q)))
	} else {
		c.holds.Remove(q.id)
		q.device.held.Remove(q.id)
	}
	if ready && c.classNow(q) == background && c.mayBlock(now, q) == 0 {
		ready = false
		c.holds.Set(q.id, int64(q.device.guard.next()))
	}
	// A queue that demands goes on demanding until it is served, also when its batch is not full any more because tasks
	// left: service that is owed must not be lost by going back and forth.
	served := q.served
	q.served = false
	defer c.gathered(q)
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
	full := c.plan(now, q) || q.tenancy.isFull(foreground, &q.version.settings)
	if k == foreground {
		d.blocks.Set(q.id, -int64(q.cost))
		if d.cap.keeps {
			d.enlist(q)
		}
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

// plan works out the cost of the queue's next batch and by when it must start so that its first task meets its target.
// It reports whether waiting would not make the batch larger.
func (c *Core) plan(now Time, q *queue) (full bool) {
	t := &c.tasks[q.ring.At(0).Task]
	s := &q.version.settings
	q.planned = c.mayTakeNow(now, q)
	if t.alone || !s.Batched {
		q.cost, full = q.estimate(t.rows).Cost, true
	} else {
		full = q.waiting >= q.planned
		rows := min(q.waiting, q.planned)
		if q.foreground > 0 {
			rows = max(rows, c.mayGrow(q))
		}
		q.cost = q.estimate(s.padded(rows)).Cost
	}
	q.due = t.due // tasks that are due before it, if any, must not go before it: see flood.go
	q.latest = endBy(q.due, t.arrival) - Time(q.cost) - Time(q.cost)/margin
	if c.variant.LeastSlack {
		q.due = q.latest
	}
	return full
}

// classNow returns the class in which the queue is served: that of its head, but foreground if it is draining, which is
// waited for.
func (c *Core) classNow(q *queue) class {
	if q.ring.Len() == 0 || q.version.closing || c.draining {
		return foreground
	}
	return classOf(q.ring.At(0).order)
}

// demand makes the queue demanding, or moves it among the demanding ones.
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
	d.short.Remove(q.id)
	switch q.stage {
	case resting:
	case pending:
		d.pending.Remove(q.id)
	case demanding:
		c.yield(q)
	}
	q.stage = resting
}

// yield takes the queue out of the demanding ones.
func (c *Core) yield(q *queue) {
	q.flow.demand[q.class].Remove(q.local)
	c.tell(q.flow, q.class)
}

// promote makes queues demanding whose batch must start before the dearest one that could go first would end: pending
// ones, and ones that are held for their batch timeout. Of several that become urgent together the later ones wait for
// the others, too; but by no more than another of the dearest, because in overload all would demand. It is done at
// picks only: with nothing to pick, being urgent changes nothing.
func (c *Core) promote(now Time, d *device) {
	block := d.block()
	next, last := now.Add(block), now.Add(2*block)
	for soon := next; ; {
		id, latest, ok := d.pending.Min()
		if !ok {
			break
		}
		q := c.queues[id]
		if _, second, ok := d.pending.Second(); ok {
			latest = min(latest, second-int64(q.cost)) // or the second would be late for it
		}
		if Time(latest) > soon {
			break
		}
		c.demand(d, q)
		soon = min(soon.Add(q.cost), last)
	}
	for {
		id, latest, ok := d.held.Min()
		if !ok || Time(latest) > next {
			break
		}
		c.queues[id].unheld = true
		c.refresh(now, c.queues[id])
	}
}
