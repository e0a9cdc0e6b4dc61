package sharedsched

import (
	"time"

	"github.com/weftserve/weft/sharedsched/fairq"
	"github.com/weftserve/weft/sharedsched/ring"
)

// Admission refuses at once tasks that cannot be answered, for three reasons: bounds keep memory finite; the caller of
// a task whose limit cannot be met is saved the wait; and work beyond a flow's share of a contended device stays
// outside, where it delays no other task. A refusal is final and early, so it rests only on measurements.

// submit carries out EventSubmit. The checks stand in the order of their cost; the caller learns of the first that
// refuses.
func (c *Core) submit(now Time, ev *Event, out *Answer) error {
	v, t, limit := c.version(ev.Version), ev.Task, ev.Limit
	out.Task = 0
	c.seq++
	switch {
	case t.Rows < 1:
		return ErrNoRows
	case c.draining:
		return ErrDraining
	case v == nil || v.closing:
		return ErrRemoved
	case v.settings.MaxRequestRows > 0 && t.Rows > v.settings.MaxRequestRows && !t.Alone:
		return ErrTooManyRows
	}
	openEnded := t.OpenEnded || limit == Never
	if limit == Never {
		limit = v.settings.Limit(now)
	}
	if limit <= now {
		return ErrExpired
	}
	if c.queuedBytes+t.Bytes > c.maxQueuedBytes {
		return c.refuse(now, v, t,
			Refusal{Bytes: t.Bytes, QueuedBytes: c.queuedBytes, MaxQueuedBytes: c.maxQueuedBytes})
	}
	victim := int32(-1)
	if v.queued[t.Priority.class()] >= v.settings.MaxQueue {
		if victim = v.lesser(t); victim < 0 {
			return c.refuse(now, v, t, Refusal{})
		}
	}
	q := c.queueFor(v, t)
	if q == nil {
		return c.refuse(now, v, t, Refusal{Keys: maxQueues})
	}
	c.fullBatch(q) // the checks below read its results from the queue
	target, named := q.target(t)
	// Refused or not: the work asked for decides which flows ask for more than a share, and how large batches may be.
	work := q.part(t.Rows)
	q.hear(now, t, min(target, limit.Sub(now)), work)
	// An answer is never wanted later than it is worth something.
	place := ring.Order{Rank: ranks[t.Priority], Target: int64(min(now.Add(target), limit, Never-1)), Seq: c.seq}
	when := timing{limit: limit, due: Time(place.Target), wanted: Never, openEnded: openEnded}
	if named {
		when.wanted = endBy(when.due, now)
	}
	probe, refusal := c.unattainable(now, q, t, limit, place, openEnded)
	if refusal != nil {
		c.touch(q) // it may have been made for this task
		c.refreshTouched(now)
		return refusal
	}
	// Only now: no task is given up for one that is then refused.
	if victim >= 0 {
		c.drop(now, q, victim, DropRoom, 0, out)
	}
	if q.lost > 0 && t.Priority.class() == foreground {
		q.weigh(t.Rows, 0)
	}
	out.Task = c.enqueue(now, q, t, when, place, work, probe)
	return nil
}

// lesser returns a task of the same queue that may be given up for one that finds its class full, -1 if there is none:
// for background work, whose newest sample is worth the most, the one that was due first; for foreground work that is
// not to be dropped first, the last of those that are.
func (v *version) lesser(t *Task) int32 {
	q := v.queues[t.Key]
	if q == nil {
		return -1
	}
	at := q.foreground // the first background task, if any
	if t.Priority != Sheddable {
		at--
	}
	if at < 0 || at >= q.ring.Len() {
		return -1
	}
	e := q.ring.At(at)
	if t.Priority != Sheddable && (e.Rank != ranks[SheddablePlus] || ranks[t.Priority] >= e.Rank) {
		return -1
	}
	return e.Task
}

// unattainable refuses a task that misses its limit even if the device served nothing but the work that goes before it
// in its queue, or that its flow's share of a contended device cannot serve in time. An estimate that was never
// measured refuses nothing, and one that nothing has confirmed for probeAfter lets a single task through: a wrong
// estimate would keep itself alive by refusing every task that would correct it.
func (c *Core) unattainable(now Time, q *queue, t *Task, limit Time, place ring.Order, openEnded bool) (
	probe bool, _ *Refusal,
) {
	if limit == Never || t.Priority == Sheddable || c.variant.NoAdmission {
		return false, nil
	}
	v, d := q.version, q.device
	left := limit.Sub(now)
	// Nearly every limit is many batches away, and that is cheap to see.
	if !t.Alone && v.settings.Batched && t.Rows <= q.most && d.freeIn(now)+d.work+farBatches*q.full.Cost <= left &&
		now >= q.shortTo {
		return false, nil
	}
	n := q.ring.Before(place)
	answer, known := c.predict(now, q, t.Alone, t.Rows, n, left)
	if !known {
		return false, nil
	}
	late, short := answer.takes-left, false
	if late <= 0 {
		if openEnded {
			return false, nil
		}
		if answer.takes, late = c.keptOut(now, q, t, n, left); late == 0 {
			return false, nil
		}
		answer.reason, short = RefusedForGoodput, true
	}
	switch since := &q.shape.refusing; {
	case q.running > 0 || q.foreground > 0: // running or waiting tasks check the estimate
		*since = Never
	case *since == Never:
		*since = now
	case now.Sub(*since) >= probeAfter:
		*since = now
		return true, nil
	}
	if answer.takes > left && answer.alone <= left {
		c.lose(now, q, foreground, t.Rows)
	}
	r := &Refusal{
		Reason: answer.reason, Queued: v.queued[foreground], MaxQueue: v.settings.MaxQueue,
		Predicted: answer.takes, Limit: left, Short: short, RetryAfter: -1,
	}
	if answer.reason == RefusedForGoodput {
		r.RetryAfter = late
	}
	c.log.refusal(now, v, r, t.Rows)
	return false, r
}

// prediction is what is known of an answer: how long it takes, why that is too long, how long it would take if its
// task went before all others, and whether it comes with the next batch of its queue.
type prediction struct {
	takes, alone time.Duration
	reason       RefusalReason
	next         bool
}

// predict returns when a task of that many rows is answered that stands behind the first n of its queue, and whether
// the estimates behind that were ever measured. If the device cannot serve all waiting work within the time that is
// left, the last foreground task of a queue may count on its flow's share only.
func (c *Core) predict(now Time, q *queue, alone bool, rows, n int, left time.Duration) (p prediction, known bool) {
	d, f := q.device, q.flow
	wait := d.freeIn(now)
	own, known := c.serviceTime(q, alone, rows)
	if !known {
		return p, false
	}
	p.alone = wait + own
	p.takes, p.reason, p.next = p.alone, RefusedDeadline, true
	if n > 0 && q.foreground > 0 { // of those before it as much as if all were alike
		if together := rows + q.waiting*n/q.ring.Len(); !alone && q.version.settings.Batched && together <= q.most {
			own, _ = c.serviceTime(q, false, together)
			p.takes = wait + own
		} else {
			p.takes += q.work * time.Duration(n) / time.Duration(q.foreground) / d.parallel()
			p.next = d.inFlight < d.Lanes
		}
	}
	if p.takes <= left && n+1 >= q.foreground && d.work/d.parallel() > left {
		fair := &d.fair[foreground]
		asked := time.Duration(float64(f.work+own) / fair.ShareWith(fairq.Flow(f.id)) / shareSlack)
		if asked /= d.parallel(); wait+asked > left {
			p.takes, p.reason = wait+asked, RefusedForGoodput
		}
	}
	return p, true
}

// freeIn returns the time until a lane of the device is expected to be free, or, where lanes share its time, the
// device.
func (d *device) freeIn(now Time) time.Duration {
	if d.shared() {
		return d.freeAt(now).Sub(now)
	}
	if d.inFlight < d.Lanes {
		return 0
	}
	least := time.Duration(Never)
	for _, l := range d.lanes {
		if !l.est.Known() {
			return 0 // unknown, and a guess must refuse nothing
		}
		least = min(least, l.est.Cost-now.Sub(l.started))
	}
	return max(0, least)
}

// serviceTime returns the least time that a task of that many rows takes if it has all lanes of the device to itself.
// It reports false where that was never measured.
func (c *Core) serviceTime(q *queue, alone bool, rows int) (time.Duration, bool) {
	s := &q.version.settings
	if alone || !s.Batched {
		return q.shape.AtLeast(rows)
	}
	each := min(rows, q.most)
	if each == rows {
		each = q.piece(rows)
	}
	full, known := q.shape.AtLeast(s.padded(each))
	total := full * time.Duration(rows/each)
	if rest := rows % each; rest > 0 {
		last, _ := q.shape.AtLeast(s.padded(q.piece(rest)))
		total += last
	}
	return max(full, total/q.device.parallel()), known
}

// refuse completes and logs a refusal for want of room. Room appears when the version's next batch ends.
func (c *Core) refuse(now Time, v *version, t *Task, r Refusal) *Refusal {
	r.Reason, r.Queued, r.MaxQueue = RefusedQueueFull, v.queued[t.Priority.class()], v.settings.MaxQueue
	r.RetryAfter = minRetry
	if r.Bytes > c.maxQueuedBytes {
		r.RetryAfter = -1 // not even an empty server has that room
	} else if q := v.queues[t.Key]; q != nil {
		_, full, _ := c.fullBatch(q)
		r.RetryAfter = max(r.RetryAfter, full)
		if r.Bytes == 0 { // else the room may be others'
			c.noRoom(now, q, t.Priority.class())
		}
	}
	c.log.refusal(now, v, &r, t.Rows)
	return &r
}
