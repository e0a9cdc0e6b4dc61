package sharedsched

import "github.com/weftserve/weft/sharedsched/fairq"

// A queue is ready when a batch of it may start: it has tasks, and it is not holding a partial batch for its timeout nor
// waiting for a first measurement. Ready queues make their flow active in the fair queue of their class.

// refresh brings the queue's place among the ready ones up to date. Whatever changes a queue ends with it.
func (c *Core) refresh(now Time, q *queue) {
	ready, until := c.readiness(now, q)
	if until != Never {
		c.holds.Set(q.id, int64(until))
	} else {
		c.holds.Remove(q.id)
	}
	f := &c.flows[q.version.flow]
	k := background
	if q.ring.n > 0 {
		k = classOf(q.ring.at(0).order)
	}
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

// readiness reports whether a batch may start, and if not, the time at which waiting alone will make it so.
func (c *Core) readiness(now Time, q *queue) (ready bool, until Time) {
	if q.ring.n == 0 {
		return false, Never
	}
	v := q.version
	if q.curve.ColdInFlight() {
		// Its first measurements are being taken; more of the unknown would only hold the device for longer.
		return false, Never
	}
	s := &v.settings
	if s.BatchTimeout == 0 || !s.Batched || v.closing || c.draining || c.tasks[q.ring.at(0).task].alone {
		return true, Never
	}
	if most, _ := q.fullBatch(); q.waiting >= most {
		return true, Never
	}
	if end := q.oldest.Add(s.BatchTimeout); end > now {
		return false, end
	}
	return true, Never
}

func (c *Core) refreshVersion(now Time, v *version) {
	// Refreshing one queue does not affect another, so the order does not matter.
	for _, id := range v.queues {
		q := c.queues[id]
		c.findOldest(q)
		c.refresh(now, q)
	}
}

// findOldest recomputes the earliest arrival after tasks left, where a batch timeout makes it matter.
func (c *Core) findOldest(q *queue) {
	if q.version.settings.BatchTimeout == 0 {
		return
	}
	q.oldest = Never
	for i := range q.ring.n {
		q.oldest = min(q.oldest, c.tasks[q.ring.at(i).task].arrival)
	}
}

// Advance lets time pass: tasks whose limit has come are dropped and queues whose timeout has ended become ready.
func (c *Core) Advance(now Time, acts []Action) []Action {
	for {
		slot, at, ok := c.limits.Min()
		if !ok || Time(at) > now {
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
	return acts
}

// NextWake returns when Advance will have something to do if nothing else happens, or Never.
func (c *Core) NextWake() Time {
	wake := Never
	if _, at, ok := c.limits.Min(); ok {
		wake = min(wake, Time(at))
	}
	if _, at, ok := c.holds.Min(); ok {
		wake = min(wake, Time(at))
	}
	return wake
}
