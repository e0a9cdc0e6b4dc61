package sharedsched

import (
	"iter"
	"math"
	"slices"
	"sort"
	"time"
)

// Admission refuses at once tasks that cannot be answered, for two reasons: bounds keep memory finite, and the caller
// of a task whose limit cannot be met is saved the wait and can try elsewhere. A flow beyond its share can count on
// its share only: a task admitted beyond that would wait until its limit and miss it. A refusal is final and early,
// so it rests only on measurements.

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
	f, err := c.flowFor(v, t)
	if err != nil {
		return err
	}
	if c.queuedBytes+t.Bytes > c.maxQueuedBytes {
		return c.refuse(now, v, f, t, limit,
			Refusal{Bytes: t.Bytes, QueuedBytes: c.queuedBytes, MaxQueuedBytes: c.maxQueuedBytes})
	}
	victim, refusal := c.makeRoom(now, v, f, t, limit, openEnded)
	if refusal != nil {
		return refusal
	}
	q := c.queueFor(v, f, t)
	if q == nil {
		return c.refuse(now, v, f, t, limit, Refusal{Keys: maxQueues})
	}
	target, named := c.hear(now, q, t, limit)
	// An answer is never wanted later than it is worth something.
	place := order{Rank: uint8(t.Priority.class()), Target: int64(min(now.Add(target), limit, Never-1)), Seq: c.seq}
	when := timing{limit: limit, due: Time(place.Target), wanted: Never, openEnded: openEnded}
	if named {
		when.wanted = endBy(when.due, now)
	}
	probe, overtaken, refusal := c.unattainable(now, q, t, limit, place, openEnded)
	if refusal != nil {
		c.touch(q) // it may have been made for this task
		c.refreshTouched(now)
		return refusal
	}
	// Only now: no task is given up for one that is then refused.
	if victim >= 0 {
		c.noRoom(now, q, t.Priority.class())
		c.drop(now, q, victim, DropRoom, 0, out)
	}
	for _, slot := range overtaken {
		if slot != victim {
			c.drop(now, q, slot, DropRoom, 0, out)
		}
	}
	out.Task = c.enqueue(now, q, t, when, place, q.part(t.Rows), probe)
	return nil
}

// makeRoom refuses a task where as many of its flow wait for its version as may, unless another of its queue can be
// given up for it, which is returned; -1 if there is room.
func (c *Core) makeRoom(now Time, v *version, f *flow, t *Task, limit Time, openEnded bool) (
	victim int32, refusal *Refusal,
) {
	k := t.Priority.class()
	if !f.tenancy(v).isFull(k, &v.settings) {
		return -1, nil
	}
	if q := v.queues[address{f, t.Key}]; q != nil {
		switch {
		case k == background:
			if q.foreground < q.ring.Len() { // that was due first: its newest sample is worth the most
				return q.ring.At(q.foreground).Task, nil
			}
		case v.settings.MaxQueue == 0 && !openEnded && q.fullHigh > 0:
			return -1, nil // bounded by its limit, as far as costs are known
		default:
			for slot := range c.lesser(q, q.foreground, ranks[t.Priority]) {
				return slot, nil
			}
		}
	}
	return -1, c.refuse(now, v, f, t, limit, Refusal{})
}

// lesser yields the tasks among the first n of a queue, or the last lookedAt of these, that matter less than a rank and
// have not begun: first the ones that matter least, and of equals the one that is due last.
func (c *Core) lesser(q *queue, n int, rank uint8) iter.Seq[int32] {
	return func(yield func(int32) bool) {
		for r := uint8(backgroundRank - 1); r > rank; r-- {
			if q.ofRank[r] == 0 {
				continue
			}
			for i := n - 1; i >= max(0, n-lookedAt); i-- {
				slot := q.ring.At(i).Task
				if t := &c.tasks[slot]; t.rank == r && t.next == 0 && !yield(slot) {
					return
				}
			}
		}
	}
}

// unattainable refuses a task that misses its limit even if the device served nothing but the work that goes before it
// in its queue, or that its flow's share of the device cannot serve in good time; unless tasks that matter less stand
// before it, which are then to be given up. An estimate that was never measured refuses nothing, and one that nothing
// has confirmed for probeAfter lets a single task through: a wrong estimate would keep itself alive by refusing every
// task that would correct it.
func (c *Core) unattainable(now Time, q *queue, t *Task, limit Time, place order, openEnded bool) (
	probe bool, overtaken []int32, _ *Refusal,
) {
	if limit == Never || t.Priority == Sheddable || c.variant.NoAdmission {
		return false, nil, nil
	}
	v, d := q.version, q.device
	left := limit.Sub(now)
	// Nearly every limit is many batches away, and that is cheap to see.
	if !t.Alone && v.settings.Batched && t.Rows <= q.most && d.freeIn(now)+d.work+farBatches*q.full.Cost <= left &&
		!q.flow.beyond {
		return false, nil, nil
	}
	n := q.ring.Before(place)
	answer := c.predict(now, q, t, n, left, openEnded)
	if answer.late <= 0 {
		return false, nil, nil
	}
	lesser := slices.Collect(c.lesser(q, n, ranks[t.Priority]))
	if few := sort.Search(len(lesser), func(i int) bool {
		return c.predict(now, q, t, n-1-i, left, openEnded).late <= 0
	}); few < len(lesser) {
		return false, lesser[:few+1], nil
	}
	switch since := &q.shape.refusing; {
	case q.running > 0 || q.foreground > 0: // running or waiting tasks check the estimate
		*since = Never
	case *since == Never:
		*since = now
	case now.Sub(*since) >= probeAfter:
		*since = now
		return true, nil, nil
	}
	r := &Refusal{
		Reason: answer.reason, Identity: q.flow.identity, Queued: q.tenancy.queued[foreground],
		MaxQueue:  v.settings.QueueBound(),
		Predicted: answer.takes, Limit: left, RetryAfter: -1,
	}
	if answer.reason == RefusedForGoodput {
		r.RetryAfter = answer.late
	}
	c.log.refusal(now, v, r, t.Rows)
	return false, nil, r
}

// prediction says how long an answer takes, and how much too long for which reason. Never measured, it is not late.
type prediction struct {
	takes, late time.Duration
	reason      RefusalReason
}

// predict returns when a task is answered that stands behind the first n of its queue.
func (c *Core) predict(now Time, q *queue, t *Task, n int, left time.Duration, openEnded bool) (p prediction) {
	d, f := q.device, q.flow
	wait := d.freeIn(now)
	own, known := c.serviceTime(q, t.Alone, t.Rows)
	if !known {
		return p
	}
	if beside, ok := c.besideIn(now, q, own); ok {
		wait = min(wait, beside)
	}
	before := time.Duration(0) // of the work in the queue as much as if all of its tasks were alike
	p.takes, p.reason = wait+own, RefusedDeadline
	if n > 0 && q.foreground > 0 && !q.unmeasured {
		before = q.work * time.Duration(min(n, q.foreground)) / time.Duration(q.foreground)
		together := t.Rows + q.waiting*n/q.ring.Len()
		if !t.Alone && q.version.settings.Batched && together <= q.most {
			own, _ = c.serviceTime(q, false, together)
			p.takes = wait + own
		} else {
			p.takes += before / d.parallel()
		}
	}
	// A burst is no flood, and a device that nobody else asks for is not shared, nor one that suffices for all.
	flood := f.beyond && now.Sub(f.since) >= lately && d.shares.last.weights > f.weight && d.shares.mean.use > 1 &&
		!q.unmeasured
	if p.late = p.takes - left; p.late > 0 || openEnded || !flood {
		return p
	}
	// A flow gets a batch each time that its share comes to one; when the next is due nobody knows: in half of that
	// time, in the mean.
	share := f.share() // 0 where everybody has enough since the flow was looked at
	if ahead := f.work - q.work + before - q.full.Cost/2; ahead > 0 && share > 0 {
		// Of a share of next to nothing no number of nanoseconds says how long it takes.
		served := wait + own + time.Duration(min(float64(ahead)/share, math.MaxInt64/4))/d.parallel()
		if good := left / admitPart; served > good {
			return prediction{served, served - good, RefusedForGoodput}
		}
	}
	return p
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
	if !known { // so small a batch was not measured, but perhaps what goes before it
		_, known = q.shape.AtLeast(q.most)
	}
	total := full * time.Duration(rows/each)
	if rest := rows % each; rest > 0 {
		last, _ := q.shape.AtLeast(s.padded(q.piece(rest)))
		total += last
	}
	return max(full, total/q.device.parallel()), known
}

// refuse completes and logs a refusal because there is no room. Room appears when the version's next batch ends.
func (c *Core) refuse(now Time, v *version, f *flow, t *Task, limit Time, r Refusal) *Refusal {
	r.Reason, r.Identity, r.Queued = RefusedQueueFull, f.identity, f.tenancy(v).queued[t.Priority.class()]
	r.MaxQueue, r.RetryAfter = v.settings.QueueBound(), minRetry
	q := v.queues[address{f, t.Key}]
	if q != nil {
		c.hear(now, q, t, limit)
	}
	if r.Bytes > c.maxQueuedBytes {
		r.RetryAfter = -1 // not even an empty server has that room
	} else if q != nil {
		r.RetryAfter = max(r.RetryAfter, q.full.Cost)
		if r.Bytes == 0 { // else the room may be others'
			c.noRoom(now, q, t.Priority.class())
		}
	}
	c.log.refusal(now, v, &r, t.Rows)
	return &r
}
