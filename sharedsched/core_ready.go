package sharedsched

import "github.com/weftserve/weft/sharedsched/fairq"

// A queue is ready when a batch of it may start: it has tasks, and it is not holding a partial batch for its timeout nor
// waiting for a first measurement. Ready queues make their flow active in the fair queue of their class.

// refresh brings the queue's place among the ready ones up to date. Every change of a queue is followed by it, at the latest at
// the end of the event.
func (c *Core) refresh(now Time, q *queue) {
	ready, until := c.readiness(now, q)
	if until != Never {
		c.holds.Set(q.id, int64(until))
	} else {
		c.holds.Remove(q.id)
	}
	f := &c.flows[q.version.flow]
	k := c.classNow(q)
	if q.ready && (!ready || q.class != k) {
		q.ready = false
		f.ready[q.class].Remove(q.local)
		if f.ready[q.class].Len() == 0 {
			c.device(q).fair[q.class].Deactivate(fairq.Flow(q.version.flow))
		}
	}
	if ready {
		q.ready, q.class = true, k
		f.ready[k].Set(q.local, int64(q.ring.at(0).target))
		c.device(q).fair[k].Activate(fairq.Flow(q.version.flow))
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
	if q.shape.ColdInFlight() {
		// Its first measurements are being taken; more of the unknown would only hold the device for longer.
		return false, Never
	}
	s := &q.version.settings
	if s.BatchTimeout == 0 || !s.Batched || q.version.closing || c.draining || c.tasks[q.ring.at(0).task].alone {
		return true, Never
	}
	if most, _ := q.fullBatch(); q.waiting >= most {
		return true, Never
	}
	if end := q.holdEnd(); end > now {
		return false, end
	}
	return true, Never
}

// holdEnd returns when a partial batch stops being held: at the batch timeout, or so early that the task with the soonest limit
// can still meet it.
func (q *queue) holdEnd() Time {
	end := q.oldest.Add(q.version.settings.BatchTimeout)
	if q.soonest == Never {
		return end
	}
	_, full := q.fullBatch()
	return min(end, q.soonest-Time(full))
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

func (c *Core) touchVersion(v *version) {
	// In which order queues are refreshed makes no difference: none looks at another, and heaps order equal keys by id.
	for _, id := range v.queues {
		c.touch(c.queues[id])
	}
}

// rescan finds the earliest arrival and limit again after tasks left, where a batch timeout makes them matter.
func (c *Core) rescan(q *queue) {
	if q.version.settings.BatchTimeout == 0 {
		return
	}
	q.oldest, q.soonest = Never, Never
	for i := range q.ring.n {
		t := &c.tasks[q.ring.at(i).task]
		q.oldest, q.soonest = min(q.oldest, t.arrival), min(q.soonest, t.limit)
	}
}

// Advance lets time pass: tasks whose limit has come are dropped and queues that were held long enough become ready.
func (c *Core) Advance(now Time, acts []Action) []Action {
	for {
		slot, ok := c.limits.due(now, &c.slab)
		if !ok {
			break
		}
		c.log.drop(now, c.queues[c.tasks[slot].queue].version, &c.tasks[slot])
		acts = c.stop(now, slot, EndExpired, acts)
	}
	for {
		id, at, ok := c.holds.Min()
		if !ok || Time(at) > now {
			break
		}
		c.refresh(now, c.queues[id])
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
	return wake
}
