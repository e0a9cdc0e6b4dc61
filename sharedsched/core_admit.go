package sharedsched

import "time"

const (
	// probeAfter is how long a shape may be refused on its estimates alone before one task is let through to check them.
	probeAfter = 100 * time.Millisecond

	minTarget = 20 * time.Millisecond
	maxTarget = time.Second
	// targetBatches is the default target in full batches: one may be running, others go first, and ours takes one.
	targetBatches = 5
)

// Submit admits a task or refuses it at once. limit is Task.Limit on the scheduler's clock, Never for none. The error is
// ErrNoRows, ErrRemoved, ErrDraining, ErrTooManyRows, ErrExpired or a *Refusal.
func (c *Core) Submit(now Time, id VersionID, t *Task, limit Time) (Handle, error) {
	v := c.version(id)
	c.seq++
	switch {
	case t.Rows < 1:
		return 0, ErrNoRows
	case c.draining:
		return 0, ErrDraining
	case v == nil || v.closing:
		return 0, ErrRemoved
	case v.settings.MaxRequestRows > 0 && t.Rows > v.settings.MaxRequestRows:
		return 0, ErrTooManyRows
	}
	if limit == Never && v.settings.MaxLatency > 0 {
		limit = now.Add(v.settings.MaxLatency)
	}
	if limit <= now {
		return 0, ErrExpired
	}
	if v.queued >= v.settings.MaxQueue {
		return 0, c.refuse(now, v, t, Refusal{})
	}
	if c.queuedBytes+t.Bytes > c.maxQueuedBytes {
		return 0, c.refuse(now, v, t, Refusal{Bytes: t.Bytes, QueuedBytes: c.queuedBytes, MaxQueuedBytes: c.maxQueuedBytes})
	}
	q := c.queueFor(v, t)
	if q == nil {
		return 0, c.refuse(now, v, t, Refusal{Keys: maxQueues})
	}
	if refusal := c.unattainable(now, q, t, limit); refusal != nil {
		c.touch(q) // it may have been made for this task
		c.refreshTouched(now)
		return 0, refusal
	}
	return c.enqueue(now, q, t, limit), nil
}

// unattainable refuses a task that misses its limit even if the device served nothing else. An estimate that was never measured
// refuses nothing, and one that nothing has confirmed for probeAfter lets a single task through, lest a wrong estimate keep
// itself alive by refusing everything that would correct it.
func (c *Core) unattainable(now Time, q *queue, t *Task, limit Time) *Refusal {
	if limit == Never {
		return nil
	}
	v := q.version
	// Nearly every limit is many batches away, and that is cheap to see.
	if most, full := q.fullBatch(); !t.Alone && v.settings.Batched && t.Rows <= most && now.Add(full) <= limit {
		return nil
	}
	predicted, known := c.serviceTime(q, t)
	if !known || now.Add(predicted) <= limit {
		return nil
	}
	switch since := &q.shape.refusing; {
	case *since == Never:
		*since = now
	case now.Sub(*since) >= probeAfter:
		*since = now
		return nil
	}
	r := &Refusal{
		Reason: RefusedDeadline, Queued: v.queued, MaxQueue: v.settings.MaxQueue,
		Predicted: predicted, Limit: limit.Sub(now), RetryAfter: -1,
	}
	c.log.refusal(now, v, r, t.Rows)
	return r
}

// serviceTime is the least time that a task takes which has all lanes of the device to itself. It reports false where that was
// never measured.
func (c *Core) serviceTime(q *queue, t *Task) (time.Duration, bool) {
	s := &q.version.settings
	if t.Alone || !s.Batched {
		return q.shape.AtLeast(t.Rows)
	}
	most, _ := q.fullBatch()
	if t.Rows <= most {
		return q.shape.AtLeast(s.padded(t.Rows))
	}
	full, known := q.shape.AtLeast(s.padded(most))
	total := full * time.Duration(t.Rows/most)
	if rest := t.Rows % most; rest > 0 {
		last, _ := q.shape.AtLeast(s.padded(rest))
		total += last
	}
	return max(full, total/time.Duration(c.device(q).Lanes)), known
}

// refuse completes and logs a refusal for want of room. Room appears when the version's next batch ends.
func (c *Core) refuse(now Time, v *version, t *Task, r Refusal) *Refusal {
	r.Reason, r.Queued, r.MaxQueue = RefusedQueueFull, v.queued, v.settings.MaxQueue
	r.RetryAfter = time.Millisecond
	if r.Bytes > c.maxQueuedBytes {
		r.RetryAfter = -1 // not even an empty server has that room
	} else if id, ok := v.queues[t.Key]; ok {
		_, full := c.queues[id].fullBatch()
		r.RetryAfter = max(r.RetryAfter, full)
	}
	c.log.refusal(now, v, &r, t.Rows)
	return &r
}

func (c *Core) enqueue(now Time, q *queue, t *Task, limit Time) Handle {
	v := q.version
	slot, k := c.take()
	k.state = taskQueued
	k.order = order{rank: ranks[t.Priority], target: min(now.Add(q.target(t)), limit), seq: c.seq}
	k.queue = q.id
	k.alone, k.unmeasured = t.Alone, t.Unmeasured
	k.rows, k.bytes = t.Rows, t.Bytes
	k.arrival, k.limit = now, limit

	if q.ring.n == 0 {
		q.oldest, q.soonest = now, Never
	}
	q.soonest = min(q.soonest, limit)
	q.ring.insert(entry{k.order, slot})
	q.waiting += t.Rows
	v.queued++
	v.live++
	c.queuedBytes += t.Bytes
	c.device(q).count(k.order, 1)
	if limit != Never {
		c.limits.add(limit, c.handle(slot))
	}
	if !q.ready || q.ring.at(0).task == slot { // one more task behind the head changes nothing for a queue that is ready
		c.refresh(now, q)
	}
	return c.handle(slot)
}

// target returns how long after its arrival the answer to t is wanted.
func (q *queue) target(t *Task) time.Duration {
	s := &q.version.settings
	switch {
	case t.Target > 0:
		return t.Target
	case s.TargetLatency > 0:
		return s.TargetLatency
	}
	_, full := q.fullBatch()
	return min(max(targetBatches*full, minTarget), maxTarget)
}

// fullBatch returns the most rows that one batch of the queue may have now, and what such a batch is expected to cost. Both
// change only with the curve and the settings, far less often than they are asked for.
func (q *queue) fullBatch() (rows int, cost time.Duration) {
	v := q.version
	if q.curveRevision != q.shape.Revision() || q.settingRevision != v.revision {
		s := &v.settings
		q.curveRevision, q.settingRevision = q.shape.Revision(), v.revision
		q.most = q.shape.MaxRows(s.MaxBatchCost, s.MaxBatchSize, s.padded)
		q.fullCost = q.shape.Estimate(s.padded(q.most)).Cost
	}
	return q.most, q.fullCost
}

func (c *Core) device(q *queue) *device { return &c.devices[c.flows[q.version.flow].device] }

func (d *device) count(o order, delta int) {
	if classOf(o) == foreground {
		d.foreground += delta
	}
}

func classOf(o order) class {
	if o.rank == backgroundRank {
		return background
	}
	return foreground
}
