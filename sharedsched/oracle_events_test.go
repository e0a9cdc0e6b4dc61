package sharedsched

import (
	"math"
	"slices"
	"time"
)

// advance lets time pass: it returns the tasks whose limit has come, and looks at the queues that were held until now.
func (o *oracle) advance(now Time) (gone []Handle) {
	var changed []*oracleQueue
	for {
		var out *oracleTask
		var of *oracleQueue
		for _, q := range o.queues {
			for _, t := range q.tasks {
				if t.limit <= now && (out == nil || t.limit < out.limit || t.limit == out.limit &&
					t.handle < out.handle) {
					out, of = t, q
				}
			}
		}
		if out == nil {
			break
		}
		gone = append(gone, of.remove(slices.Index(of.tasks, out)))
		if !slices.Contains(changed, of) {
			changed = append(changed, of)
		}
	}
	for {
		held := o.best(func(q *oracleQueue) bool { return q.heldTo <= now },
			func(a, b *oracleQueue) int { return int(a.heldTo - b.heldTo) })
		if held == nil {
			break
		}
		o.look(now, held)
	}
	o.look(now, changed...)
	return gone
}

// hear works out when a task, admitted or not, is to be answered, and notes that somebody wants that. A target of 0 is
// none.
func (o *oracle) hear(now Time, q *oracleQueue, t *oracleTask, target time.Duration) {
	asked := target
	if asked < q.takes(1) { // not even a row could meet it
		target = q.version.TargetLatency
	}
	t.named = target > 0
	if target == 0 {
		roomy := *q
		roomy.memory, roomy.cap = &oracleMemory{}, new(int)
		target = min(max(5*q.takes(roomy.most()), 20*time.Millisecond), time.Second)
	}
	t.target = min(now.Add(target), t.limit)
	if wanted := t.target.Sub(now); t.rank != backgroundRank && !t.alone && (asked == 0 || asked >= q.takes(1)) &&
		(o.least == 0 || wanted < o.least) {
		o.least = wanted
	}
}

// arrive admits a task that Core admitted.
func (o *oracle) arrive(now Time, q *oracleQueue, t *oracleTask, target time.Duration) {
	o.hear(now, q, t, target)
	t.place = int64(t.target)
	switch t.stale = Never; {
	case t.rank == backgroundRank:
	case t.limit == Never || t.openEnded:
		t.stale = now + (t.target-now+1)/2
	}
	i := 0
	for i < len(q.tasks) && q.tasks[i].order().Before(t.order()) {
		i++
	}
	q.tasks = slices.Insert(q.tasks, i, t)
	o.look(now, q)
}

func (t *oracleTask) order() order {
	o := order{Target: t.place, Seq: uint64(t.seq)}
	if t.rank == backgroundRank {
		o.Rank = 1 // behind all others
	}
	return o
}

// noRoom notes that the queue was full.
func (q *oracleQueue) noRoom() { q.filled = true }

// setBack moves tasks that have waited for too long behind the others, the newest first.
func (q *oracleQueue) setBack(now Time, low time.Duration) {
	t, front := q.tasks[0], 0
	for _, t := range q.tasks {
		if t.rank != backgroundRank {
			front++
		}
	}
	waited := func(targets Time) bool {
		return t.rank != backgroundRank && t.stale != Never &&
			now-Time(q.version.BatchTimeout) >= t.arrival+targets*(t.target-t.arrival)
	}
	switch { // it must have grown since its first task was late
	case !waited(1):
		q.crowd = 0
	case q.crowd == 0:
		q.crowd = front
	case waited(10) && now.Sub(t.arrival) >= 10*low && front > q.crowd+q.most():
		q.filled = true
	}
	for q.filled && !q.version.WaitWhenFull && q.tasks[0].stale <= now && q.tasks[0].next == 0 {
		t := q.tasks[0]
		t.stale, t.place = Never, math.MaxInt64/2-int64(t.seq)-1
		i := 1
		for i < len(q.tasks) && q.tasks[i].order().Before(t.order()) {
			i++
		}
		q.tasks = slices.Insert(q.tasks, i, t)[1:]
	}
}

// isFull reports whether no more foreground tasks of the version and flow may wait.
func (o *oracle) isFull(of *oracleQueue) bool {
	n := 0
	for _, q := range o.queues {
		for _, t := range q.tasks {
			if q.version == of.version && q.flow == of.flow && t.rank != backgroundRank {
				n++
			}
		}
	}
	return n >= of.version.MaxQueue
}

// room returns the task of q that is given up for one of a priority that finds that many of its class waiting; nil for
// none.
func (o *oracle) room(q *oracleQueue, p Priority, queued int) *oracleTask {
	var victim *oracleTask
	for _, t := range q.tasks {
		switch {
		case queued < q.version.MaxQueue:
		case p == Sheddable && t.rank == backgroundRank:
			if victim == nil {
				victim = t
			}
		case p != Sheddable && t.rank < backgroundRank && t.rank > ranks[p] && t.next == 0 &&
			(victim == nil || t.rank >= victim.rank):
			victim = t
		}
	}
	return victim
}

// charge makes a flow pay for a batch. The virtual time follows the flow furthest behind.
func (o *oracle) charge(q *oracleQueue, k class, est time.Duration) {
	if slices.ContainsFunc(o.flows, func(f *oracleFlow) bool { return f.demands[k] }) {
		o.virtual[k] = max(o.virtual[k], o.leastTag(k))
	} else {
		o.virtual[k] = max(o.virtual[k], q.flow.tag[k])
	}
	if !q.flow.demands[k] {
		// Or the charge would be wiped out later, but not its refund.
		q.flow.tag[k] = max(q.flow.tag[k], o.virtual[k]-o.step[k])
		o.correct(q, k, est)
		return
	}
	before := o.leastTag(k)
	o.correct(q, k, est)
	o.step[k], q.flow.lift[k] = o.leastTag(k)-before, 0
}

func (o *oracle) correct(q *oracleQueue, k class, by time.Duration) {
	q.flow.tag[k] += int64(by) / q.flow.weight
}
