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
//   - A new task with a limit is refused, at once, if its answer would take more than half of a target that nearly all
//     of its flow have (the tenth percentile), unless it is needed to fill the next batch. Its own limit does not
//     matter, so that all have the same chance of a place.
//   - A task without a limit that has waited for half the time to its target goes behind those that have not, and is
//     served, the newest first, with the capacity that they leave.
//
// The former begins when limits could not be met for a good part of the rows of several batches, which is more than a
// burst; the latter then, or when the queue is full. Each lasts until that has not been so for floodFor. Then it is
// tried whether all find a place again, and little has to be lost for an end of that.

// weigh notes of rows that are asked for whether there was no capacity for them (1) or there was (0).
func (q *queue) weigh(rows int, lost float64) {
	part := float64(min(rows, q.most)) / float64(floodBatches*max(1, q.most))
	q.lost += part * (lost - q.lost)
}

// lose notes that a task of that many rows misses its limit. Where callers wait for room none is turned away, and none
// is to overtake.
func (c *Core) lose(now Time, q *queue, k class, rows int) {
	if k == background || q.version.settings.WaitWhenFull || c.variant.NoFloodRule {
		return
	}
	enough, over := floodLost, q.shortTo > 0 && now >= q.shortTo
	if now.Sub(q.lostAt) > floodFor || over && q.lostAt < q.shortTo {
		q.lost = 0 // that was another time
	}
	if over && now.Sub(q.shortTo) < floodFor {
		enough /= floodBatches // it has just been overload: what one batch says will do
	}
	q.lostAt = now
	c.fullBatch(q) // which weigh reads
	if q.weigh(rows, 1); q.lost > enough {
		q.shortTo = now.Add(floodFor)
		c.noRoom(now, q, k)
	}
}

// noRoom notes that a task finds the queue full.
func (c *Core) noRoom(now Time, q *queue, k class) {
	if k == foreground && !q.version.settings.WaitWhenFull && !c.variant.NoFloodRule {
		q.backTo = now.Add(floodFor)
	}
}

// keptOut returns how long an answer would take for a task with a limit of its own that stands behind the first n of
// its queue, if that is too long for the queue to be kept short, and how much too long.
func (c *Core) keptOut(now Time, q *queue, t *Task, n int, left time.Duration) (takes, by time.Duration) {
	f := &q.flow.recent
	if now >= q.shortTo {
		return 0, 0
	}
	others := q.ring.Before(ring.Order{Rank: ranks[t.Priority], Target: stalePlace - int64(c.seq)})
	p, _ := c.predict(now, q, t.Alone, t.Rows, max(n, min(others, q.limited)), left)
	if by = p.takes - min(left, f.targets.low())/floodPart; by <= 0 {
		return 0, 0
	}
	// A flow that asks for twice what the device can do fills a batch in half the time that one takes: who comes no
	// sooner before the next batch is needed to fill it.
	wait := q.device.freeIn(now)
	soon := float64(max(q.full.Cost, p.alone-wait)) * fillSlack / max(1, float64(f.asked)/float64(recently))
	if p.next && float64(wait) <= soon {
		return 0, 0
	}
	return p.takes, by
}

// isStale reports whether a task without a limit of its own has kept its place, which is its target, for too long.
func (t *task) isStale(now Time) bool {
	return t.openEnded && t.Target == int64(t.due) && now >= t.arrival.Add(t.due.Sub(t.arrival)/floodPart)
}

// stalePlace is behind all targets, which are times.
const stalePlace = math.MaxInt64 / 2

// setBack puts stale tasks at the head of a queue that is kept short behind the others. One that was begun stays, or
// comes back (goOn): what it has cost would be lost. Those beyond setBackAtOnce are left for the next pick.
func (c *Core) setBack(now Time, q *queue) {
	for range setBackAtOnce {
		if now >= q.backTo {
			return
		}
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

// goOn gives a task that was begun the place of its target again.
func (q *queue) goOn(t *task, slot int32) {
	if t.Target != int64(t.due) {
		q.ring.Remove(t.Order)
		t.Target = int64(t.due)
		q.ring.Insert(ring.Entry{Order: t.Order, Task: slot})
	}
}
