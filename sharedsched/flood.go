package sharedsched

import (
	"math"
	"time"

	"github.com/weftserve/weft/sharedsched/ring"
)

// In overload somebody must lose, and it matters who, and when he learns of it. Where all that might be in time are
// admitted, each is answered at his last moment: what the machine is late by is lost then, and who is given up has no
// time to try elsewhere. Callers without limits have patience all the same, which nobody knows: when they give up they
// ask again, and leave their first tasks in the queue. Once it is full of those, nobody is answered who still waits,
// and retries keep it full, also when the cause has long passed (a metastable failure: Bronson et al., HotOS 2021).
//
// So in overload the queue is kept short, as by controlled delay (CoDel: Nichols and Jacobson, ACM Queue 2012; in
// servers: Maurer, Fail at Scale, ACM Queue 2015):
//
//   - A new task with a limit is refused, at once, if its answer would take more than half of the shortest limit that
//     came lately, unless it is needed to fill the next batch. A queue that is as short as the most urgent need serves
//     all of them.
//   - A task without one that has waited for half the time to its target goes behind those that have not, and is
//     served, the newest first, with the capacity that they leave.
//
// Overload is more than a burst: there is no capacity for a good part of the rows of several batches, or the queue is
// full. It lasts until that has not been so for a while.

// weigh notes of rows that are asked for whether there was no capacity for them (1) or there was (0).
func (c *Core) weigh(q *queue, rows int, lost float64) {
	most, _, _ := c.fullBatch(q)
	part := min(1, float64(rows)/float64(floodBatches*most))
	q.lost += part * (lost - q.lost)
}

// lose notes that there is no capacity for a task of that many rows. Where callers wait for room none is turned away,
// and none is to overtake.
func (c *Core) lose(now Time, q *queue, k class, rows int) {
	if k == background || q.version.settings.WaitWhenFull || c.variant.NoFloodRule {
		return
	}
	if c.weigh(q, rows, 1); q.lost > floodLost {
		if !q.flooded(now) {
			q.shortest = Never.Sub(now)
		}
		q.floodedTo = now.Add(floodFor)
	}
}

// flooded reports whether the queue is to be kept short.
func (q *queue) flooded(now Time) bool { return now < q.floodedTo }

// keepShort returns how many tasks are taken to go before one with a limit of its own, of which n do and which is left
// away, and how long its answer may take. Its limit decides neither, so that all have the same chance of a place.
func (q *queue) keepShort(n int, left time.Duration, rank uint8) (before int, patience time.Duration) {
	if left >= q.full.Cost { // else it is in time by chance only
		q.shortest = min(q.shortest, left)
	}
	like := q.ring.Before(ring.Order{Rank: rank, Target: math.MaxInt64})
	return max(n, min(like, q.limited)), min(left, q.shortest/floodPart)
}

// isNeeded reports whether a task that comes now is needed to fill the next batch, which can start after a wait: those
// that come soon before it will be answered sooner.
func (q *queue) isNeeded(wait time.Duration) bool {
	return float64(wait) <= float64(q.full.Cost)*(1-q.lost)*fillSlack
}

// isStale reports whether a task without a limit of its own has kept its place, which is its target, for too long.
func (t *task) isStale(now Time) bool {
	return t.openEnded && t.Target == int64(t.due) && now >= t.arrival.Add(t.due.Sub(t.arrival)/floodPart)
}

// stalePlace is behind all targets, which are times.
const stalePlace = math.MaxInt64 / 2

// setBack puts stale tasks at the head of a queue that is kept short behind the others. One that was begun stays: what
// it has cost would be lost.
func (c *Core) setBack(now Time, q *queue) {
	for q.flooded(now) {
		slot := q.ring.At(0).Task
		t := &c.tasks[slot]
		if !t.isStale(now) || t.next > 0 || classOf(t.Order) == background {
			return
		}
		q.ring.Remove(t.Order)
		t.Target = stalePlace - int64(t.Seq)
		q.ring.Insert(ring.Entry{Order: t.Order, Task: slot})
	}
}
