package sharedsched

import (
	"cmp"
	"slices"
	"time"
)

// oracle makes the decisions of Core on one device: which queue is served, which tasks are dropped, which rows a batch
// takes. It knows the rules of the package comment and nothing of how Core keeps them: it scans plain slices and keeps
// nothing sorted but the tasks of a queue. It only looks up the cost of executions in Core's curves, and which flows
// ask for more than their share in Core's sums.
type oracle struct {
	flows    []*oracleFlow
	queues   []*oracleQueue // in order of creation
	virtual  [2]int64       // by class
	step     [2]int64       // by how much the least tag advanced when a flow that demanded service was charged last
	least    time.Duration  // the smallest target of foreground work; 0: none was seen
	beyond   func(*oracleFlow) bool
	low      func(*oracleFlow) time.Duration // the least target of its flow that counts
	kept     func() time.Duration            // the most that a batch on the last lane may take; 0: no bound
	lanes    int
	last     func() time.Duration // what the batch on the other lane takes, 0 for none
	draining bool

	joined []*oracleQueue // queues that the latest batch took tasks of along

	versions    []oracleVersion
	free, total int64 // memory of the device
	memory      oracleMemory
}

type oracleFlow struct {
	id      int
	weight  int64
	tag     [2]int64 // by class
	lift    [2]int64 // by how much it was raised when the flow began to demand, until it is served
	demands [2]bool
}

type oracleVersion struct {
	Settings
	proven int // rows of the largest execution that ran well
}

type oracleTask struct {
	queue         *oracleQueue
	handle        Handle
	rows, next    int   // next: the first row that was not started
	rank          uint8 // of its priority
	arrival       Time
	target, limit Time
	place         int64 // its target, but for overload
	stale         Time
	named         bool // the target was named
	seq           int
	alone         bool
	openEnded     bool
}

type oracleQueue struct {
	flow    *oracleFlow
	version *oracleVersion
	shape   *shape // Core's
	tasks   []*oracleTask
	memory  *oracleMemory // the device's
	cap     *int          // rows, since one of the shape ran out of memory; 0: none did

	// As of the last look at the queue, which follows every change of it.
	waits       bool // foreground tasks
	company     bool // others did
	stage       stage
	class       class
	cost        time.Duration
	due, latest Time
	heldTo      Time
	served      bool // since then
	unheld      bool // since a pick found that it cannot wait
	crowd       int
	filled      bool // it was full, not longer ago than a trace takes
}

func (q *oracleQueue) padded(rows int) int {
	for _, n := range q.version.AllowedBatchSizes {
		if n >= rows {
			return n
		}
	}
	return rows
}

func (q *oracleQueue) takes(rows int) time.Duration { return q.shape.Estimate(q.padded(rows)).Cost }

// high returns a time that an execution of rows hardly exceeds: at least 5 % more than it takes.
func (q *oracleQueue) high(rows int) time.Duration {
	e := q.shape.Estimate(q.padded(rows))
	return max(e.High, e.Cost+e.Cost/20)
}

// within returns the most rows of one batch that takes no longer than a budget, if there is one; a batch of one row
// always may.
func (q *oracleQueue) within(budget time.Duration) int {
	rows, largest := 1, q.size(*q.memory)
	for rows < q.version.MaxBatchSize && (q.padded(rows+1) <= largest || q.padded(rows+1) == q.padded(1)) &&
		(budget == 0 || q.takes(rows+1) <= budget || q.padded(rows+1) == q.padded(1)) {
		rows++
	}
	return rows
}

func (q *oracleQueue) most() int   { return q.within(q.version.MaxBatchCost) }
func (q *oracleQueue) whole() bool { return q.tasks[0].alone || !q.version.Batched }

func (q *oracleQueue) waiting() (rows int) {
	for _, t := range q.tasks {
		rows += t.rows - t.next
	}
	return rows
}

// mayBlock returns for how many rows background work may hold the device.
func (o *oracle) mayBlock(q *oracleQueue) int {
	if o.draining || q.tasks[0].rank != backgroundRank || o.least == 0 {
		return q.most()
	}
	first := q.takes(1)
	if q.whole() {
		first = q.shape.Estimate(q.tasks[0].rows).Cost
	}
	if first > o.least/10 {
		return 0
	}
	return min(q.most(), q.within(o.least/10))
}

// holdEnd returns when the queue stops waiting for its batch to fill.
func (o *oracle) holdEnd(q *oracleQueue) Time {
	if q.version.BatchTimeout == 0 || o.draining || q.whole() || q.waiting() >= q.most() || q.unheld {
		return 0
	}
	end := Never
	for _, t := range q.tasks {
		if t.next > 0 {
			return 0 // a task that has begun goes on
		}
		end = min(end, t.arrival.Add(q.version.BatchTimeout))
	}
	return min(end, q.startBy())
}

// startBy returns by when a batch that is held must start for the sake of limits, and of targets that were named.
func (q *oracleQueue) startBy() Time {
	by, oldest, soonest := Never, Never, Never
	takes := q.takes(min(q.waiting(), q.most()))
	for _, t := range q.tasks {
		oldest, soonest = min(oldest, t.arrival), min(soonest, t.limit)
		if t.named {
			by = min(by, t.latest(takes))
		}
	}
	if soonest == Never {
		return by
	}
	// A part of the time that there was is kept for late timers and the way of the answer.
	kept := (soonest - oldest) / 20
	kept += min(kept, Time(time.Millisecond))
	return min(by, soonest-kept-Time(max(q.takes(q.most()), q.high(q.most()))))
}

// latest returns when an execution must start that answers the task by its target. A part of the time to that is kept
// for batches that grow and for the way of the answer.
func (t *oracleTask) latest(takes time.Duration) Time {
	spare := (t.target - t.arrival) / 20
	return t.target - Time(takes) - Time(takes)/20 - spare - min(spare, Time(time.Millisecond))
}

// dearest returns the cost of the dearest batch that may start next.
func (o *oracle) dearest() (cost time.Duration) {
	for _, q := range o.queues {
		if q.stage != resting && q.class == foreground {
			cost = max(cost, q.cost)
		}
	}
	return cost
}

// look brings the stages of queues up to date, and then of others whose batches they could join now, or not any more.
func (o *oracle) look(now Time, changed ...*oracleQueue) {
	for i := 0; i < len(changed); i++ {
		q := changed[i]
		q.waits = len(q.tasks) > 0 && q.tasks[0].rank != backgroundRank
		o.lookAt(now, q)
		for _, other := range o.queues {
			if other != q && other.shape == q.shape && other.waits && other.company != (len(o.others(other)) > 0) &&
				!slices.Contains(changed[i+1:], other) {
				changed = append(changed, other)
			}
		}
	}
}

func (o *oracle) lookAt(now Time, q *oracleQueue) {
	q.company = len(o.others(q)) > 0
	insist := q.stage == demanding && !q.served
	q.unheld = q.unheld && !q.served && len(q.tasks) > 0
	was := q.class
	q.stage, q.served, q.heldTo = resting, false, Never
	if len(q.tasks) > 0 {
		end := o.holdEnd(q)
		q.class = foreground
		if q.tasks[0].rank == backgroundRank && !o.draining {
			q.class = background
		}
		if end > now {
			q.heldTo = end
		} else if o.mayBlock(q) > 0 {
			o.stand(now, q, insist && was == q.class)
		}
	}
	o.update(q.flow)
}

// stand makes a queue that may start a batch pending or demanding.
func (o *oracle) stand(now Time, q *oracleQueue, insist bool) {
	head, waiting := q.tasks[0], q.waiting()
	full := q.whole() || waiting >= q.most()
	if waiting = min(waiting, q.most()); q.waits {
		waiting = max(waiting, o.mayGrow(q))
	}
	q.cost = q.takes(waiting)
	if q.whole() {
		q.cost = q.shape.Estimate(head.rows).Cost
	}
	q.stage, q.due, q.latest = pending, head.target, head.latest(q.cost)
	if q.class == background || full || insist || q.version.BatchTimeout > 0 || o.draining || o.isFull(q) ||
		q.latest <= now.Add(o.dearest()) {
		q.stage = demanding
	}
}

// update makes a flow demand service while one of its queues does; of foreground work it counts while the flow is
// beyond its share. When it begins to, the flow is lifted to the virtual time.
func (o *oracle) update(f *oracleFlow) {
	for k := range f.demands {
		demands := slices.ContainsFunc(o.queues, func(q *oracleQueue) bool {
			return q.flow == f && q.stage == demanding && q.class == class(k)
		}) && (class(k) == background || o.beyond(f))
		switch {
		case demands && !f.demands[k]:
			f.lift[k] = max(0, o.virtual[k]-f.tag[k])
			f.tag[k] += f.lift[k]
		case !demands && f.demands[k]: // without having been served: as if nothing had been
			f.tag[k] -= f.lift[k]
		}
		f.demands[k] = demands
	}
}

// best returns the queue for which better is true against every other that ok allows; nil if none is allowed.
func (o *oracle) best(ok func(*oracleQueue) bool, better func(a, b *oracleQueue) int) (best *oracleQueue) {
	for _, q := range o.queues {
		if ok(q) && (best == nil || better(q, best) < 0) {
			best = q
		}
	}
	return best
}

func (o *oracle) leastTag(k class) int64 {
	least := int64(1<<63 - 1)
	for _, f := range o.flows {
		if f.demands[k] {
			least = min(least, f.tag[k])
		}
	}
	return least
}

// pick returns the queue to serve, nil for none, and the class that pays for it: on the last lane a short one, where
// that lane is kept for short ones.
func (o *oracle) pick(now Time) (*oracleQueue, class) {
	q, k := o.turn(now)
	short := func(q *oracleQueue) bool { return q.cost <= o.kept() }
	if q == nil || k == background || o.kept() == 0 || o.last() <= o.kept() || o.draining || short(q) {
		return q, k
	}
	return o.best(func(q *oracleQueue) bool { return q.stage != resting && q.class == foreground && short(q) },
		func(a, b *oracleQueue) int { return cmp.Compare(a.due, b.due) }), k
}

// turn returns the queue whose turn it is.
func (o *oracle) turn(now Time) (*oracleQueue, class) {
	for _, f := range o.flows {
		o.update(f) // it may be beyond its share now, or no longer
	}
	slack := func(a, b *oracleQueue) int { return cmp.Compare(a.latest, b.latest) }
	due := func(except *oracleQueue) *oracleQueue {
		return o.best(func(q *oracleQueue) bool { return q.stage == pending && q != except }, slack)
	}
	// A queue is urgent if it must start before the dearest and the ones that became urgent before it have ended, for its
	// own sake or that of the next.
	first := now.Add(o.dearest())
	soon := first
	for q := due(nil); q != nil; q = due(nil) {
		if next := due(q); q.latest > soon && (next == nil || next.latest-Time(q.cost) > soon) {
			break
		}
		q.stage = demanding
		o.update(q.flow)
		soon = min(soon.Add(q.cost), first.Add(o.dearest()))
	}
	for _, q := range o.queues {
		if q.heldTo != Never && q.startBy() <= first {
			q.unheld = true
			o.look(now, q)
		}
	}
	demands := func(q *oracleQueue) bool { return q.stage == demanding && q.class == foreground }
	earliest := func(a, b *oracleQueue) int {
		return cmp.Or(cmp.Compare(a.due, b.due), cmp.Compare(a.flow.id, b.flow.id))
	}
	if w := o.best(func(q *oracleQueue) bool { return demands(q) && !o.beyond(q.flow) }, earliest); w != nil {
		return w, foreground
	}
	q := o.best(demands, earliest)
	if q == nil {
		if q := due(nil); q != nil {
			return q, foreground
		}
		return o.pickBackground(now), background
	}
	// Whose callers named no time goes first where it is owed service.
	least := due(nil)
	for _, p := range []*oracleQueue{least, due(least)} {
		if p != nil && !p.flow.demands[foreground] && !p.tasks[0].named && p.tasks[0].target < p.tasks[0].limit &&
			p.flow.tag[foreground] <= o.leastTag(foreground) {
			return p, foreground
		}
	}
	// Where not all that are beyond their shares can be in time, the one furthest behind.
	until := now.Add(2*q.cost + time.Duration(q.flow.tag[foreground]-o.leastTag(foreground)))
	if until >= now.Add(time.Second) {
		until = Never
	}
	rivals := func(q *oracleQueue) bool { return demands(q) && q.due < until }
	if r := o.best(rivals, o.behind(foreground)); r != nil {
		return r, foreground
	}
	return q, foreground
}

// behind prefers the flow with the least tag, and of its queues, or flows with equal tags, the one that is due first.
func (o *oracle) behind(k class) func(a, b *oracleQueue) int {
	return func(a, b *oracleQueue) int {
		return cmp.Or(cmp.Compare(a.flow.tag[k], b.flow.tag[k]), cmp.Compare(a.due, b.due),
			cmp.Compare(a.flow.id, b.flow.id))
	}
}

func (o *oracle) pickBackground(now Time) *oracleQueue {
	for _, q := range o.queues {
		for _, t := range q.tasks {
			if t.rank != backgroundRank {
				return nil
			}
		}
	}
	for {
		q := o.best(func(q *oracleQueue) bool { return q.stage == demanding && q.class == background },
			o.behind(background))
		if q == nil {
			return nil
		}
		if o.look(now, q); q.stage != resting {
			return q
		}
	}
}
