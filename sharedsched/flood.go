package sharedsched

import (
	"math"
)

// In overload somebody must lose. Tasks with limits of their own are refused at once where they would (admit.go).
// Callers without limits have patience too, and nobody knows how much: when they give up they ask again, and leave
// their first tasks in the queue. Once it is full of those, nobody is answered who still waits, and retries keep it
// full, also when the cause has long passed (a metastable failure: Bronson et al., HotOS 2021).
//
// So for a while after a queue was full, or has grown while its first task had waited for ten times the time to its
// target, a task without a limit that has waited for half of that time goes behind newer ones, and such tasks are
// served, the newest first, with the capacity that the others leave (adaptive LIFO: Maurer, Fail at Scale, ACM Queue
// 2015). Before that callers are served in their order, however many: all who wait are answered. Afterwards the tasks
// that went behind come back.

// noRoom notes that a queue is as good as full. Where callers wait for room, none is to overtake.
func (c *Core) noRoom(now Time, q *queue, k class) {
	if k == foreground && !q.version.settings.WaitWhenFull {
		q.backTo = now.Add(lately)
	}
}

// waitedFor reports whether a task without a limit of its own has kept its place, which is its target, for so many
// times the time to that.
func (t *task) waitedFor(now Time, targets float64) bool {
	return t.openEnded && t.Target == int64(t.due) &&
		float64(now.Sub(t.arrival)) >= targets*float64(t.due.Sub(t.arrival))
}

// stalePlace is behind all targets, which are times.
const stalePlace = math.MaxInt64 / 2

// setBack puts stale tasks at the head of a queue behind the others. One that was begun stays, or comes back (goOn):
// what it has cost would be lost. Those beyond lookedAt are left for the next pick.
func (c *Core) setBack(now Time, q *queue) {
	c.watchCrowd(now, q)
	if q.version.settings.WaitWhenFull || c.variant.NoFloodRule {
		return
	}
	if now >= q.backTo {
		c.bringBack(q)
		return
	}
	for range lookedAt {
		slot := q.ring.At(0).Task
		t := &c.tasks[slot]
		if !t.waitedFor(now, staleTargets) || t.next > 0 || classOf(t.order) == background {
			return
		}
		q.ring.Remove(t.order)
		t.Target = stalePlace - int64(t.Seq)
		q.ring.Insert(entry{order: t.order, Task: slot})
	}
}

// watchCrowd takes the queue for full if its first task has waited for patienceTargets, and it has grown by more than a
// batch since its first task was late: where callers wait for their answers before they ask again it does not grow.
func (c *Core) watchCrowd(now Time, q *queue) {
	t := &c.tasks[q.ring.At(0).Task]
	held := Time(q.version.settings.BatchTimeout)
	switch {
	case !t.waitedFor(now-held, 1):
		q.crowd = 0
	case q.crowd == 0:
		q.crowd = q.foreground
	case t.waitedFor(now-held, patienceTargets) && q.foreground > q.crowd+q.most &&
		now.Sub(t.arrival) >= patienceTargets*q.flow.recent.targets.low(): // one in a hurry is not to turn the queue
		c.noRoom(now, q, classOf(t.order))
	}
}

// bringBack gives the last of the tasks that were set back its place again: one with each batch, because there may be
// many, and nobody knows whether their callers still wait.
func (c *Core) bringBack(q *queue) {
	if q.foreground == 0 {
		return
	}
	slot := q.ring.At(q.foreground - 1).Task
	if t := &c.tasks[slot]; t.Target > stalePlace/2 {
		q.goOn(t, slot)
	}
}

// isLate reports whether the first task of the queue is late, or one was set back.
func (q *queue) isLate(now Time) bool {
	return q.due < now || q.foreground > 0 && q.ring.At(q.foreground-1).Target > stalePlace/2
}

// goOn gives a task that was begun the place of its target again.
func (q *queue) goOn(t *task, slot int32) {
	if t.Target != int64(t.due) {
		q.ring.Remove(t.order)
		t.Target = int64(t.due)
		q.ring.Insert(entry{order: t.order, Task: slot})
	}
}
