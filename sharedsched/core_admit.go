package sharedsched

import (
	"math"
	"time"

	"github.com/weftserve/weft/sharedsched/cost"
	"github.com/weftserve/weft/sharedsched/fairq"
)

const (
	// probeAfter is how long a shape may be refused on its estimates alone before one task is let through to check them.
	probeAfter = 100 * time.Millisecond

	minTarget = 20 * time.Millisecond
	maxTarget = time.Second
	// targetBatches is the default target in full batches: one may be running, others go first, and ours takes one.
	targetBatches = 5
)

// Submit admits a task or refuses it at once. limit is Task.Limit on the scheduler's clock, Never for none. The error is
// ErrNoRows, ErrRemoved, ErrDraining, ErrTooManyRows, ErrExpired or a *Refusal. Where there is no room, a task that matters less
// may end for its sake.
func (c *Core) Submit(now Time, id VersionID, t *Task, limit Time, acts []Action) (Handle, []Action, error) {
	v := c.version(id)
	c.seq++
	switch {
	case t.Rows < 1:
		return 0, acts, ErrNoRows
	case c.draining:
		return 0, acts, ErrDraining
	case v == nil || v.closing:
		return 0, acts, ErrRemoved
	case v.settings.MaxRequestRows > 0 && t.Rows > v.settings.MaxRequestRows && !t.Alone:
		return 0, acts, ErrTooManyRows
	}
	if limit == Never {
		limit = c.limit(id, now)
	}
	if limit <= now {
		return 0, acts, ErrExpired
	}
	if c.queuedBytes+t.Bytes > c.maxQueuedBytes {
		return 0, acts, c.refuse(now, v, t, Refusal{Bytes: t.Bytes, QueuedBytes: c.queuedBytes, MaxQueuedBytes: c.maxQueuedBytes})
	}
	victim := int32(-1)
	if v.queued[t.Priority.class()] >= v.settings.MaxQueue {
		if victim = v.lesser(t); victim < 0 {
			return 0, acts, c.refuse(now, v, t, Refusal{})
		}
	}
	q := c.queueFor(v, t)
	if q == nil {
		return 0, acts, c.refuse(now, v, t, Refusal{Keys: maxQueues})
	}
	c.fullBatch(q)
	target, named := q.target(t)
	q.hear(now, t, min(target, limit.Sub(now)))
	place := order{rank: ranks[t.Priority], target: min(now.Add(target), limit, Never-1), seq: c.seq}
	probe, refusal := c.unattainable(now, q, t, limit, place)
	if refusal != nil {
		c.touch(q) // it may have been made for this task
		c.refreshTouched(now)
		return 0, acts, refusal
	}
	if victim >= 0 {
		acts = c.drop(now, q, victim, DropRoom, 0, acts)
	}
	wanted := Never
	if named {
		wanted = endBy(place.target, now)
	}
	return c.enqueue(now, q, t, limit, wanted, place, probe), acts, nil
}

// limit returns the limit of a task that brings none.
func (c *Core) limit(id VersionID, arrival Time) Time {
	if v := c.version(id); v != nil && v.settings.MaxLatency > 0 {
		return arrival.Add(v.settings.MaxLatency)
	}
	return Never
}

// Room returns how many more foreground tasks of a version may wait; as many as one likes where none is admitted any more, for
// then none needs to wait to hear so.
func (c *Core) Room(id VersionID) int {
	v := c.version(id)
	if v == nil || v.closing || c.draining {
		return math.MaxInt
	}
	return v.settings.MaxQueue - v.queued[foreground]
}

// lesser returns a task of the same queue that may be given up for one that finds its class full, -1 if there is none: for
// background work, whose newest sample is worth the most, the one that was due first; for foreground work that is not to be
// dropped first, the last of those that are.
func (v *version) lesser(t *Task) int32 {
	q := v.queues[t.Key]
	if q == nil {
		return -1
	}
	at := q.foreground // the first background task, if any
	if t.Priority != Sheddable {
		at--
	}
	if at < 0 || at >= q.ring.n {
		return -1
	}
	e := q.ring.at(at)
	if t.Priority != Sheddable && (e.rank != ranks[SheddablePlus] || ranks[t.Priority] >= e.rank) {
		return -1
	}
	return e.task
}

// unattainable refuses a task that misses its limit even if the device served nothing but what goes before it in its queue, or
// that its flow's share of a contended device cannot serve in time. An estimate that was never measured refuses nothing, and one
// that nothing has confirmed for probeAfter lets a single task through, lest a wrong estimate keep itself alive by refusing
// everything that would correct it.
func (c *Core) unattainable(now Time, q *queue, t *Task, limit Time, place order) (probe bool, _ *Refusal) {
	if limit == Never || t.Priority == Sheddable || c.variant.NoAdmission {
		return false, nil
	}
	v, d, f := q.version, q.device, q.flow
	left := limit.Sub(now)
	// Nearly every limit is many batches away, and that is cheap to see.
	wait := c.freeIn(now, d)
	if !t.Alone && v.settings.Batched && t.Rows <= q.most && wait+d.work+2*q.full.Cost <= left {
		return false, nil
	}
	own, known := c.serviceTime(q, t.Alone, t.Rows)
	if !known {
		return false, nil
	}
	before := q.work / d.parallel()
	first := q.ring.n > 0 && place.before(q.ring.at(q.ring.n-1).order)
	switch rows := q.waiting + t.Rows; {
	case first:
		before = 0 // not all that waits goes before it
	case !t.Alone && v.settings.Batched && rows <= q.most: // all of it fits one batch
		before = 0
		own, _ = c.serviceTime(q, false, rows)
	}
	reason := RefusedDeadline
	predicted := wait + before + own
	if predicted <= left && !first && d.work > left {
		// The device cannot serve all that waits by then, so that the flow may count on its share only.
		fair := &d.fair[foreground]
		asked := time.Duration(float64(f.work+own) / fair.ShareWith(fairq.Flow(f.id)) / shareSlack)
		if wait+asked > left {
			reason, predicted = RefusedForGoodput, wait+asked
		}
	}
	if predicted <= left {
		return false, nil
	}
	switch since := &q.shape.refusing; {
	case q.running > 0 || q.foreground > 0: // what runs or waits checks the estimate
		*since = Never
	case *since == Never:
		*since = now
	case now.Sub(*since) >= probeAfter:
		*since = now
		return true, nil
	}
	r := &Refusal{
		Reason: reason, Queued: v.queued[foreground], MaxQueue: v.settings.MaxQueue,
		Predicted: predicted, Limit: left, RetryAfter: -1,
	}
	if reason == RefusedForGoodput {
		r.RetryAfter = predicted - left
	}
	c.log.refusal(now, v, r, t.Rows)
	return false, r
}

// shareSlack is by how much a flow may ask for more than its share can serve in time: others may want less than theirs.
const shareSlack = 1.5

// freeIn returns in what time a lane of the device is expected to be free, or the device where lanes share its time.
func (c *Core) freeIn(now Time, d *device) time.Duration {
	if d.shared() {
		return c.freeAt(now, d).Sub(now)
	}
	if d.inFlight < d.Lanes {
		return 0
	}
	least := time.Duration(Never)
	for i := range c.lanes {
		l := &c.lanes[i]
		if l.device != d.index {
			continue
		}
		if !l.est.Known() {
			return 0 // nobody knows, and a guess must refuse nothing
		}
		least = min(least, l.est.Cost-now.Sub(l.started))
	}
	return max(0, least)
}

// serviceTime is the least time that a task of so many rows takes which has all lanes of the device to itself. It reports false where
// that was never measured.
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
	r.RetryAfter = time.Millisecond
	if r.Bytes > c.maxQueuedBytes {
		r.RetryAfter = -1 // not even an empty server has that room
	} else if q := v.queues[t.Key]; q != nil {
		_, full, _ := c.fullBatch(q)
		r.RetryAfter = max(r.RetryAfter, full)
	}
	c.log.refusal(now, v, &r, t.Rows)
	return &r
}

func (c *Core) enqueue(now Time, q *queue, t *Task, limit, wanted Time, place order, probe bool) Handle {
	v := q.version
	slot, k := c.take()
	k.state = taskQueued
	k.order = place
	k.queue = q
	k.alone, k.unmeasured, k.probe = t.Alone, t.Unmeasured, probe
	k.rows, k.bytes = t.Rows, t.Bytes
	k.arrival, k.limit, k.wanted = now, limit, wanted

	if q.ring.n == 0 {
		q.oldest, q.soonest, q.wanted, q.begun = now, Never, Never, false
	}
	q.soonest, q.wanted = min(q.soonest, limit), min(q.wanted, wanted)
	q.ring.insert(entry{k.order, slot})
	q.waiting += t.Rows
	v.queued[classOf(k.order)]++
	v.live++
	v.account.Accepted++
	c.queuedBytes += t.Bytes
	q.expect(k)
	if limit != Never {
		c.limits.add(limit, c.handle(slot))
	}
	if q.stage == resting || q.ring.at(0).task == slot {
		c.refresh(now, q)
	} else {
		c.touch(q) // one more task behind the head of a queue that is ready matters at the next pick, not before
	}
	return c.handle(slot)
}

// target returns how long after its arrival the answer to t is wanted, and whether the task or the settings named that. A target
// that not even a row of its own could meet orders nothing: it would put the task first each time, and others late, for nothing.
func (q *queue) target(t *Task) (d time.Duration, named bool) {
	s := &q.version.settings
	switch {
	case t.Target > 0 && !q.isUnreal(t):
		return t.Target, true
	case s.TargetLatency > 0:
		return s.TargetLatency, true
	}
	return min(max(targetBatches*q.ownCost, minTarget), maxTarget), false
}

// isUnreal reports whether the task asks for a target that not even a row of its own could meet.
func (q *queue) isUnreal(t *Task) bool {
	return q.fullHigh > 0 && t.Target > 0 && t.Target < q.rowCost
}

// fullBatch returns the most rows that one batch of the queue may have now, what such a batch is expected to cost, and what it
// will hardly exceed. They change only with the curve, the settings and the device, far less often than they are asked for, and are
// kept in the queue: who changes a curve, settings or memory says so by touchShape or touchVersion, so that nothing but the device's
// revisions is looked at each time. Admission asks once and then looks at the queue.
func (c *Core) fullBatch(q *queue) (rows int, cost, high time.Duration) {
	d := q.device
	if now := 1 + d.state.Revision() + d.cap.revision; now != q.asOf { // neither ever decreases
		s := &q.version.settings
		q.asOf = now
		q.learning = q.shape.ColdInFlight()
		budget := s.MaxBatchCost
		if s.Adaptive && d.cap.most > 0 && (budget == 0 || d.cap.most < budget) {
			budget = d.cap.most
		}
		q.ownCost = q.shape.Estimate(s.padded(q.shape.MaxRows(s.MaxBatchCost, s.MaxBatchSize, s.padded))).Cost
		limit := q.mayTake()
		q.most = q.shape.MaxRows(budget, limit, s.padded)
		q.bound = q.most < limit && budget > 0 && q.shape.Estimate(s.padded(q.most+1)).Cost > budget
		q.full = q.shape.Estimate(s.padded(q.most))
		q.fullHigh = q.high(q.most)
		q.rowCost = q.shape.Estimate(s.padded(1)).Cost
	}
	return q.most, q.full.Cost, q.fullHigh
}

// estimate returns what an execution of so many rows costs, as of the last fullBatch for what is asked most often: a full batch.
func (q *queue) estimate(rows int) cost.Estimate {
	if rows == q.full.Rows {
		return q.full
	}
	return q.shape.Estimate(rows)
}

// high returns what an execution of so many rows will hardly exceed; 0 where nothing was measured, for what is not known must
// not turn anything away.
func (q *queue) high(rows int) time.Duration {
	e := q.estimate(q.version.settings.padded(rows))
	if !e.Known() {
		return 0
	}
	return max(e.High, e.Cost+e.Cost/margin)
}

// hear notes what is asked for, admitted or not. Proof and warm-up want no answer by any time, and background work must not be
// noticed.
func (q *queue) hear(now Time, t *Task, target time.Duration) {
	if t.Alone || t.Priority == Sheddable {
		return
	}
	if q.isUnreal(t) {
		target = 0 // what cannot be met must not make others' batches small
	}
	q.flow.recent.arrived(now, target, q.part(t.Rows), q.rowCost)
	q.device.guard.saw(now, target)
}

// part returns what rows cost as a part of a full batch.
func (q *queue) part(rows int) time.Duration {
	if q.most == 1 {
		return q.full.Cost * time.Duration(rows)
	}
	return q.full.Cost * time.Duration(rows) / time.Duration(q.most)
}

// expect counts a task that waits now, and the device time that it asks for: its share of a full batch.
func (q *queue) expect(k *task) {
	d, f := q.device, q.flow
	if q.fullHigh > 0 { // a guess must refuse nothing
		k.work = q.part(k.rows)
	}
	if classOf(k.order) == foreground {
		q.foreground++
		q.work += k.work
		d.foreground++
		d.work += k.work
		f.work += k.work
	}
}

// forget takes back what expect counted.
func (q *queue) forget(k *task) {
	d, f := q.device, q.flow
	if classOf(k.order) == foreground {
		q.foreground--
		q.work -= k.work
		d.foreground--
		d.work -= k.work
		f.work -= k.work
	}
}

func (p Priority) class() class { return classOf(order{rank: ranks[p]}) }

func classOf(o order) class {
	if o.rank == backgroundRank {
		return background
	}
	return foreground
}
