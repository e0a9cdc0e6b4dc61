package sharedsched

import (
	"time"

	"github.com/weftserve/weft/sharedsched/cost"
	"github.com/weftserve/weft/sharedsched/fairq"
)

// The estimates made when a batch started are corrected when it ends: the flow's charge, the cost model, and the known
// memory.

// settle carries out EventSettle.
func (c *Core) settle(now Time, ev *Event, out *Answer) {
	l, b, r := c.lanes[ev.Lane], ev.Batch, ev.Report
	d := l.device
	q := l.queue
	v := q.version
	c.waited(now, d)
	d.accrue(now)
	d.inFlight--
	l.running = false
	if d.removed {
		c.lanes[l.id] = nil
	}
	d.setTurn(now)

	// The measured device time counts. Where lanes share the device's time the clock of a batch runs on while another
	// computes, so that it counts for no more than the batch's part of the time in flight.
	used := l.share
	if r.DeviceTime > 0 && (!d.shared() || r.DeviceTime < used) {
		used = r.DeviceTime
	}
	revision := q.shape.Revision() // to find out whether anything was learnt
	// Its outcome counts for memory also where it teaches no cost, such as the first run of a shape.
	switch {
	case r.OutOfMemory:
		c.ranOut(now, q.shape, b.Padded)
	case !r.Unusable:
		c.ranWell(v, b.Padded)
	}
	if r.Unusable || r.OutOfMemory || c.get(b.Spans[0].task).unmeasured {
		q.shape.Abandon(l.est)
	} else {
		learned := used
		if r.DeviceTime == 0 && !d.shared() {
			learned = unwaited(d, used) // nobody knows, but others' executions tell
		}
		q.shape.Settle(l.est, learned)
		c.ran(now, l, r)
		q.shape.refusing = Never
	}
	// Failed executions took the device as well, and are charged: else a flow of failing requests would be served for
	// nothing.
	for i := 0; i < len(b.Spans); {
		of, spans, part := c.stretch(l, b, i, used)
		_, _, charged := c.stretch(l, b, i, l.est.Cost)
		of.flow.served += part
		d.fair[l.class].Correct(fairq.Flow(of.flow.id), part-charged)
		if i == 0 || of != q {
			of.running--
		}
		i += spans
	}

	if first := c.get(b.Spans[0].task); l.class == foreground {
		if first.alone {
			q.flow.recent.ran(now, used)
		}
		if first.untimed() && q.flow.work == 0 && !c.variant.NoAwait {
			d.awaited = q.flow
			_, tasks, _ := c.stretch(l, b, 0, used)
			q.flow.callers.answered(now, tasks, used)
		}
	}
	failed, late := r.Failure != NotFailed, true
	var part time.Duration // of used, for a span; kept, for most spans have as many rows, and a division takes long
	var answered, answeredRows int
	for i, rows := 0, 0; i < len(b.Spans); i++ {
		s := &b.Spans[i]
		if s.Rows != rows {
			rows, part = s.Rows, used*time.Duration(s.Rows)/time.Duration(b.Rows)
		}
		t := c.get(s.task)
		failed, late = failed || s.Err != nil, late && t.limit < now
		if t.wanted != Never && t.due < now {
			l.batch.Missed++
		}
		if t.state == taskRunning && t.running == s.Rows && classOf(t.order) == foreground { // and now ends
			answered++
			answeredRows += s.Rows
		}
		c.endSpan(now, s, b, l.batch.Number, part, out)
	}
	if l.class == foreground && !l.mixed && !b.Alone {
		q.callers.answered(now, answered, used)
		q.callers.tasks, q.callers.rows = answered, answeredRows
	}
	out.Batch = l.batch
	out.Batch.Elapsed, out.Batch.DeviceTime, out.Batch.Failed = now.Sub(l.started), used, failed
	failure := r.Failure
	if failed && failure == NotFailed {
		failure = ModelFailed
	}
	v.account.Executions[failure]++
	v.account.Reruns += uint64(r.Reruns)
	if late {
		v.account.Late++
	}
	l.queue = nil
	if l.est.Source == cost.Unmeasured || q.shape.Revision() != revision {
		c.touchShape(q.shape)
	}
	c.touchHeld(d) // the device's own factors may have moved
	c.refreshTouched(now)
	c.retire(v, out)
}

// ran notes how long the execution waited for a processor. Where lanes share the device's time they wait for each
// other, which estimates count already.
func (c *Core) ran(now Time, l *lane, r *Report) {
	d := l.device
	if r.DeviceTime == 0 || d.shared() {
		return
	}
	before := d.state.Waits()
	d.state.Ran(r.DeviceTime, now.Sub(l.started), now.Sub(d.ran))
	d.ran = now
	if d.state.Waits() != before {
		c.touchDevice(d)
	}
}

// unwaited returns the device time in a time that an execution takes by the clock on the wall.
func unwaited(d *device, elapsed time.Duration) time.Duration {
	return time.Duration(float64(elapsed) / d.state.Waits())
}

// endSpan accounts for rows that were executed in the batch of that number, or failed, and ends their task if they were
// the last to come back.
func (c *Core) endSpan(now Time, s *Span, b *Batch, number uint64, used time.Duration, out *Answer) {
	slot := s.task.Slot()
	t := &c.tasks[slot]
	t.running -= s.Rows
	o := &t.outcome
	o.Executions++
	o.Batch, o.Ended = number, now
	o.DeviceTime += used
	o.Compute = now.Sub(t.started)
	o.Device, o.Reason = b.Device, b.Reason
	o.BatchRequests, o.BatchRows, o.PaddedRows = len(b.Spans), b.Rows, b.Padded-b.Rows
	switch {
	case s.Err != nil && s.Again:
		c.stop(now, slot, EndAgain, out)
	case s.Err != nil:
		c.stop(now, slot, EndFailed, out) // its other rows would be computed for nothing
	case t.running > 0 || t.state == taskQueued: // others of its rows run or wait
	case t.state == taskEnding:
		c.finish(slot, t.end, out)
	default:
		c.finish(slot, EndDone, out)
	}
}
