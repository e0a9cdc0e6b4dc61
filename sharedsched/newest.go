package sharedsched

import (
	"math"
	"math/bits"
	"time"

	"github.com/weftserve/weft/sharedsched/ring"
)

// In overload somebody must lose, and the order decides who. Served in order of targets, every task is answered at its
// last moment: what is a little late is lost, and limits make batches small. Callers without limits have patience all
// the same, which nobody knows: when they give up they ask again, and leave their first tasks in the queue. Once it is
// full of those, nobody is answered who still waits, and retries keep it full, also when the cause has long passed (a
// metastable failure: Bronson et al., HotOS 2021).
//
// So from the first task of a queue that there is no capacity for, until none waits, new tasks of a priority go first
// (adaptive LIFO: Maurer, Fail at Scale, ACM Queue 2015): they have the most time left, so that batches are full and
// answers early. But the sooner an answer is wanted (the target, not the limit: safety deadlines of half a minute must
// not rank a request last) the earlier a task goes, to a factor of two. Those that were overtaken get what capacity is
// left; they are given up as soon as newer ones would make them late, which is early enough to try elsewhere.

// flooded notes that there was no capacity for a task.
func (q *queue) flooded(p Priority) {
	if p.class() == foreground {
		q.newestFirst = q.foreground > 0
	}
}

// overtakes reports whether a new task goes before those of its priority. Where callers wait for room nobody is turned
// away, and nobody is to overtake.
func (c *Core) overtakes(q *queue, t *Task) bool {
	return q.newestFirst && t.Priority.class() == foreground && !q.version.settings.WaitWhenFull && !c.variant.OldestFirst
}

// The places of tasks that overtake are before all targets, which are times: a range for each length, in bits, of the
// time until their target, and in it the newest first.
const (
	firstPlace = math.MinInt64 / 2
	rangeBits  = 52
)

// ahead returns the place of a new task whose answer is wanted within target. A task that was begun stays before it:
// what it has cost would be lost.
func (c *Core) ahead(q *queue, rank uint8, target time.Duration) int64 {
	if i := q.ring.Before(ring.Order{Rank: rank, Target: math.MinInt64}); i < q.ring.Len() {
		if first := q.ring.At(i); first.Rank == rank && c.tasks[first.Task].next > 0 {
			first.Target = firstPlace
			c.tasks[first.Task].Target = firstPlace
		}
	}
	return firstPlace + int64(bits.Len64(uint64(target)))<<rangeBits - int64(c.seq)
}

// lastLike returns the number of tasks up to the last one whose answer was wanted as soon as that of one that overtook.
func (q *queue) lastLike(t *task) int {
	end := (t.Target - firstPlace + 1<<rangeBits - 1) >> rangeBits << rangeBits
	return q.ring.Before(ring.Order{Rank: t.Rank, Target: firstPlace + end, Seq: math.MaxUint64})
}

// dropOvertaken gives up the last task of the queue, and the last one whose answer was wanted as soon as the newest
// one's, if they are late now that the newest goes before them.
func (c *Core) dropOvertaken(now Time, q *queue, newest int32, out *Answer) {
	dropped := false
	for _, n := range [...]int{q.foreground - 1, q.lastLike(&c.tasks[newest]) - 1} {
		if n >= q.foreground {
			continue // the other one was the same
		}
		slot := q.ring.At(n).Task
		t := &c.tasks[slot]
		if slot == newest || t.Rank != c.tasks[newest].Rank || t.next > 0 {
			continue
		}
		left := t.deadline().Sub(now)
		if p, known := c.predict(now, q, t.alone, t.rows, n, left); known && p.takes > left {
			c.drop(now, q, slot, DropOvertaken, p.takes, out)
			dropped = true
		}
	}
	if dropped {
		c.refreshTouched(now)
	}
}
