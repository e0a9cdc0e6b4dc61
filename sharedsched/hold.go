package sharedsched

// Where the settings ask for it, a partial batch is held so that more tasks can join it: until its oldest task has
// waited for the batch timeout, and no longer than limits and named targets allow.

// readiness reports whether a batch may start, and if not, the time at which waiting alone will make it so.
func (c *Core) readiness(now Time, q *queue) (ready bool, until Time) {
	if q.ring.Len() == 0 {
		return false, Never
	}
	most, _, _ := c.fullBatch(q)
	if q.learning {
		// Its first measurements are being taken; more executions of unknown cost would only hold the device for
		// longer.
		return false, Never
	}
	s := &q.version.settings
	// Where no task can join, or none will arrive any more, holding would gain nothing. A queue with a task that has
	// begun is not held a second time.
	if s.BatchTimeout == 0 || !s.Batched || q.version.closing || c.draining || c.hurrying || q.begun || q.unheld ||
		c.tasks[q.ring.At(0).Task].alone {
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

// holdEnd returns when a partial batch stops being held: at the batch timeout, or when it must start.
func (c *Core) holdEnd(q *queue) Time {
	return min(q.oldest.Add(q.version.settings.BatchTimeout), c.startBy(q))
}

// startBy returns by when a held batch must start for all of its tasks to meet their limits, and the targets that were
// named; Never if there are none. Default targets do not count: an operator who asks for batches to be held accepts
// that answers come later than these.
func (c *Core) startBy(q *queue) Time {
	most, full, high := c.fullBatch(q)
	latest := Never
	if q.wanted != Never {
		cost := q.estimate(q.version.settings.padded(min(q.waiting, most))).Cost
		latest = q.wanted - Time(cost+cost/margin)
	}
	if q.soonest != Never {
		latest = min(latest, endBy(q.soonest, q.oldest)-Time(max(full, high)))
	}
	return latest
}

// rescan recomputes the times that the queue keeps of its tasks where there is a batch timeout, after some of them
// left.
func (c *Core) rescan(q *queue) {
	if q.version.settings.BatchTimeout == 0 {
		return
	}
	q.oldest, q.soonest, q.wanted, q.begun = Never, Never, Never, false
	for i := range q.ring.Len() {
		t := &c.tasks[q.ring.At(i).Task]
		q.oldest, q.soonest, q.wanted = min(q.oldest, t.arrival), min(q.soonest, t.limit), min(q.wanted, t.wanted)
		q.begun = q.begun || t.next > 0
	}
}
