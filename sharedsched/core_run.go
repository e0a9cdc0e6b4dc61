package sharedsched

import (
	"time"

	"github.com/weftserve/weft/sharedsched/cost"
	"github.com/weftserve/weft/sharedsched/fairq"
)

// Next gives a free lane its next batch. It reports false when there is nothing to start; the lane then stays free. Tasks that
// expired are dropped first, and so are those that must be given up for the sake of the batch. b is filled but for the payloads;
// its slice of spans is reused.
func (c *Core) Next(now Time, id LaneID, b *Batch, acts []Action) (bool, []Action) {
	acts = c.Advance(now, acts)
	d := &c.devices[c.lanes[id].device]
	if d.turn > now {
		return false, acts
	}
	d.free = c.freeAt(now, d)
	// The cap follows at picks, not at arrivals: it bounds batches, and only picks start any.
	c.sweep(now, d)
	c.touchHeld(d)
	c.refreshTouched(now)
	// Each turn either starts a batch, finds nothing to start, or gives up at least one task, so that it ends.
	for {
		p := c.pick(now, d)
		q := p.queue
		if q == nil {
			return false, acts
		}
		waiting := q.ring.n
		if acts = c.dropHopeless(now, q, acts); q.ring.n < waiting {
			c.refreshTouched(now) // without them another queue may be more urgent
			continue
		}
		// Before the batch is formed, which changes both: they are the reason for the pick.
		p.slack, p.demanding = q.latest.Sub(now), d.fair[q.class].Len()
		acts = c.form(now, q, b, acts)
		c.start(now, id, p, b)
		c.refreshTouched(now)
		return true, acts
	}
}

// HasWork reports whether Next would find a batch for the device of the lane, or a task to give up. It is asked after every event,
// and so looks at nothing but a time and lengths; batch threads are woken by it.
func (c *Core) HasWork(now Time, id LaneID) bool {
	d := &c.devices[c.lanes[id].device]
	return d.turn <= now && d.hasWork()
}

func (d *device) hasWork() bool {
	return d.fair[foreground].Len() > 0 || d.pending.Len() > 0 || d.foreground == 0 && d.fair[background].Len() > 0
}

// pick is the choice of a queue, and why.
type pick struct {
	queue     *queue
	rule      PickRule
	slack     time.Duration
	demanding int
}

// pick chooses the queue to serve. Background work is looked at only when no foreground task waits on the device, ready or not.
func (c *Core) pick(now Time, d *device) pick {
	c.promote(now, d)
	fair := &d.fair[foreground]
	f, ok := fair.First()
	if !ok {
		// Nobody is owed anything yet: rather than idle, serve the queue with the least slack.
		if id, _, ok := d.pending.Min(); ok {
			return pick{queue: c.queues[id], rule: PickIdle}
		}
		return pick{queue: c.pickBackground(now, d), rule: PickBackground}
	}
	q := c.flows[f].first[foreground]
	if q.latest > now.Add(d.block()) {
		// Nobody is in a hurry: these demand service because their batches are full. The one furthest behind goes first.
		f, _ = fair.Behind(int64(Never))
		return pick{queue: c.flows[f].first[foreground], rule: PickFull}
	}
	// Those that are due before another batch of that cost could end after this one would be late, and the further the flow is
	// ahead already, the longer it keeps them waiting. Between these fairness decides, if the flow asks for more than its share.
	conflict := now.Add(2*q.cost + time.Duration(fair.Lead(f)))
	if !q.flow.recent.beyond || q.due >= conflict || c.variant.NoConflictRule {
		return pick{queue: q, rule: PickEarliest}
	}
	if rival, ok := fair.Behind(int64(conflict)); ok && rival != f {
		return pick{queue: c.flows[rival].first[foreground], rule: PickBehind}
	}
	return pick{queue: q, rule: PickEarliest}
}

// pickBackground chooses among background work, nil if there is none that may run now.
func (c *Core) pickBackground(now Time, d *device) *queue {
	for d.foreground == 0 {
		f, ok := d.fair[background].First()
		if !ok {
			break
		}
		q := c.flows[f].first[background]
		if c.refresh(now, q); q.stage != resting { // it may block for longer than it may have before
			return q
		}
	}
	return nil
}

// form takes a prefix of the queue into b, after dropping heads that are to be given up: as many tasks as fit the rows that one
// batch may have. A task that fits no batch whole is split, one that would fit the next batch whole is left for it. Behind
// foreground tasks, background ones only take the place of padding: nobody waits longer for them.
func (c *Core) form(now Time, q *queue, b *Batch, acts []Action) []Action {
	v := q.version
	s := &v.settings
	b.Version, b.Spans, b.Rows, b.Padded = v.id, b.Spans[:0], 0, 0
	b.Alone, b.Reason = false, FlushUnspecified
	room, acts := c.giveUp(now, q, acts)
	if t := &c.tasks[q.ring.at(0).task]; t.alone || !s.Batched {
		b.Alone, b.Reason = true, FlushUnbatched
		c.takeRows(now, q, t.rows-t.next, b)
		b.Padded = b.Rows
		return acts
	}
	largest, _, _ := c.fullBatch(q)
	most := c.size(q, min(room, c.mayBlock(now, q)))
	hurried := room < min(largest, q.waiting) // limits, not sizes, made the batch as small as it is
	head := q.ring.at(0).order
	full := false
	for q.ring.n > 0 && !full {
		t := &c.tasks[q.ring.at(0).task]
		if t.alone {
			break // it gets a batch of its own
		}
		left, room := t.rows-t.next, most-b.Rows
		behind := b.Rows > 0 && classOf(head) == foreground && classOf(t.order) == background
		if behind {
			room = min(room, s.padded(b.Rows)-b.Rows)
			if left > room {
				break
			}
		}
		// A task that the next batch can hold is not split: its caller would wait for both.
		if left <= room || left > most {
			c.takeRows(now, q, min(left, room), b)
		}
		full = !behind && left >= room
	}
	b.Padded = s.padded(b.Rows)
	if b.Reason = c.flushReason(now, q, full && most == largest, most); hurried {
		b.Reason = FlushDeadline
	}
	return acts
}

func (c *Core) flushReason(now Time, q *queue, full bool, most int) FlushReason {
	s := &q.version.settings
	switch {
	case full && most == 1 && s.MaxBatchCost > 0 && q.rowCost > s.MaxBatchCost:
		return FlushSingleRequestOverBudget
	case full && q.bound:
		return FlushBudgetReached
	case full:
		return FlushFull
	case q.version.closing || c.draining || c.hurry:
		return FlushDrain
	case s.BatchTimeout == 0 || q.begun:
	case q.oldest.Add(s.BatchTimeout) > now:
		return FlushDeadline
	default:
		return FlushTimeout
	}
	return FlushDeviceIdle
}

// takeRows moves rows of the head task from the queue into the batch. The task stays at the head while it has rows left: its place in
// the order is that of its target, which a split does not change.
func (c *Core) takeRows(now Time, q *queue, rows int, b *Batch) {
	slot := q.ring.at(0).task
	t := &c.tasks[slot]
	if t.next == 0 {
		t.started = now
		t.outcome.Queue = now.Sub(t.arrival)
	}
	b.Spans = append(b.Spans, Span{First: t.next, Rows: rows, task: c.handle(slot)})
	b.Rows += rows
	t.next += rows
	t.running += rows
	q.waiting -= rows
	if t.next == t.rows {
		c.unqueue(now, q, t, taskRunning)
	}
}

// unqueue takes a task off everything that waits: it has no rows left to start, or will start none. Every way out of a queue leads
// through it, so that the counts of what waits are kept in one place.
func (c *Core) unqueue(now Time, q *queue, t *task, next taskState) {
	t.state = next
	q.ring.remove(t.order)
	if q.ring.n == 0 {
		q.idleAt = now
	}
	q.version.queued[classOf(t.order)]--
	c.queuedBytes -= t.bytes
	q.forget(t)
	if t.limit != Never {
		c.limits.left(&c.slab)
	}
}

// start puts the batch in flight: the flow is charged its estimate.
func (c *Core) start(now Time, id LaneID, p pick, b *Batch) {
	q, k := p.queue, foreground
	if p.rule == PickBackground {
		k = background
	}
	l := &c.lanes[id]
	d := &c.devices[l.device]
	d.accrue(now, c.lanes)
	d.inFlight++
	b.Device = d.Name
	l.running, l.queue, l.class, l.started, l.share = true, q, k, now, 0
	l.due = c.get(b.Spans[0].task).target
	// By what is executed, not by what was asked for: padding costs as much as rows do.
	if l.est = q.estimate(b.Padded); l.est.Source == cost.Unmeasured {
		l.est = q.shape.Begin(b.Padded)
		c.touchShape(q.shape) // its other queues wait for the measurement
	}
	l.batch = BatchEvent{
		Version: b.Version, Device: d.Name, Tasks: len(b.Spans), Rows: b.Rows, Padded: b.Padded, Reason: b.Reason,
	}
	if l.est.Source != cost.Unmeasured {
		l.batch.Estimated = l.est.Cost
	}
	q.running++
	q.version.account.Started++
	q.served = true
	// Now and not at the end: until then other lanes would serve the flow again, as if it had got nothing.
	d.fair[k].Charge(fairq.Flow(q.flow.id), l.est.Cost)
	c.setTurn(now, d)
	c.touch(q)
	c.log.batch(now, q, b, l, &d.fair[k], p)
}

// accrue divides the time since the last change equally among the batches in flight on the device, so that the shares sum to
// its busy time. A remainder of nanoseconds goes to the first.
func (d *device) accrue(now Time, lanes []lane) {
	passed := now.Sub(d.since)
	d.since = now
	if d.inFlight == 0 {
		return
	}
	d.busy += passed
	each := passed / time.Duration(d.inFlight)
	rest := passed - each*time.Duration(d.inFlight)
	for i := range lanes {
		if l := &lanes[i]; l.running && l.device == d.index {
			l.share += each + rest
			rest = 0
		}
	}
}

// Settle ends the batch on a lane: its cost is measured, charges are corrected, and its tasks end or go on. A span whose Err is
// set failed. The event is for the Observer.
func (c *Core) Settle(now Time, id LaneID, b *Batch, r Report, acts []Action) (BatchEvent, []Action) {
	l := &c.lanes[id]
	d := &c.devices[l.device]
	q := l.queue
	v := q.version
	d.accrue(now, c.lanes)
	d.inFlight--
	l.running, l.queue = false, nil
	c.setTurn(now, d)

	used := l.share
	if r.DeviceTime > 0 {
		used = r.DeviceTime
	}
	revision := q.shape.Revision()
	// What it tells about memory counts also where it teaches no cost, such as the first run of a shape.
	switch {
	case r.OutOfMemory:
		c.ranOut(now, q.shape, b.Padded)
	case !r.Unusable:
		c.ranWell(v, b.Padded)
	}
	if r.Unusable || r.OutOfMemory || c.get(b.Spans[0].task).unmeasured {
		q.shape.Abandon(l.est)
	} else {
		q.shape.Settle(l.est, used)
		q.shape.refusing = Never
	}
	// What failed took the device as well, and is paid for: else a flow of failing requests would be served for nothing.
	v.flow.served += used
	d.fair[l.class].Correct(fairq.Flow(v.flow.id), used-l.est.Cost)

	ev := l.batch
	ev.Elapsed, ev.DeviceTime = now.Sub(l.started), used
	q.running--
	for i := range b.Spans {
		s := &b.Spans[i]
		ev.Failed = ev.Failed || s.Err != nil || r.Failure != NotFailed
		acts = c.endSpan(now, s, b, used*time.Duration(s.Rows)/time.Duration(b.Rows), acts)
	}
	if ev.Failed && r.Failure == NotFailed {
		r.Failure = ModelFailed
	}
	v.account.Executions[r.Failure]++
	v.account.Reruns += uint64(r.Reruns)
	if l.est.Source == cost.Unmeasured || q.shape.Revision() != revision {
		c.touchShape(q.shape)
	}
	c.touchHeld(d)
	c.refreshTouched(now)
	return ev, c.retire(v, acts)
}

// endSpan accounts for rows that were executed, or failed, and ends their task if they were the last to come back.
func (c *Core) endSpan(now Time, s *Span, b *Batch, used time.Duration, acts []Action) []Action {
	slot := s.task.slot()
	t := &c.tasks[slot]
	t.running -= s.Rows
	o := &t.outcome
	o.Executions++
	o.DeviceTime += used
	o.Compute = now.Sub(t.started)
	o.Device, o.Reason = b.Device, b.Reason
	o.BatchRequests, o.BatchRows, o.PaddedRows = len(b.Spans), b.Rows, b.Padded-b.Rows
	if s.Err != nil {
		return c.stop(now, slot, EndFailed, acts) // its other rows would be computed for nothing
	}
	if t.running > 0 || t.state == taskQueued {
		return acts // others of its rows run or wait
	}
	end := EndDone
	if t.state == taskEnding {
		end = t.end
	}
	return c.finish(slot, end, acts)
}

// stop ends a task before all of its rows were executed: rows that wait are never started. The task ends now, or with the last
// of its running rows. The first reason to stop is the one that counts, but for a failure, which tells the caller more.
func (c *Core) stop(now Time, slot int32, end End, acts []Action) []Action {
	t := &c.tasks[slot]
	if t.state != taskEnding || end == EndFailed {
		t.end = end
	}
	if t.state == taskQueued {
		q := t.queue
		q.waiting -= t.rows - t.next
		c.unqueue(now, q, t, taskEnding)
		c.touch(q)
	}
	t.state = taskEnding
	if t.running > 0 {
		return acts // the executor reads its payload until then
	}
	v := t.queue.version // finish forgets it
	acts = c.finish(slot, t.end, acts)
	return c.retire(v, acts)
}

func (c *Core) finish(slot int32, end End, acts []Action) []Action {
	t := &c.tasks[slot]
	v := t.queue.version
	v.live--
	v.account.Ended[end]++
	acts = append(acts, Action{Kind: TaskEnded, Version: v.id, Task: c.handle(slot), End: end, Outcome: &t.outcome})
	c.put(slot)
	return acts
}

// Cancel ends a task that has rows waiting. A task that is running throughout goes on to its end, and Cancel reports false: what
// was started cannot be taken back.
func (c *Core) Cancel(now Time, h Handle, acts []Action) (bool, []Action) {
	t := c.get(h)
	if t == nil || t.state != taskQueued {
		return false, acts
	}
	acts = c.stop(now, h.slot(), EndCancelled, acts)
	c.refreshTouched(now)
	return true, acts
}

// Close ends every task that has rows waiting.
func (c *Core) Close(now Time, acts []Action) []Action {
	c.draining = true
	for slot := range c.tasks {
		if c.tasks[slot].state == taskQueued {
			acts = c.stop(now, int32(slot), EndClosed, acts)
		}
	}
	c.refreshTouched(now)
	return acts
}
