package sharedsched

import "github.com/weftserve/weft/sharedsched/ring"

// In overload somebody must lose, and the order decides who. Served in order of targets, every task is answered at its
// last moment: what is a little late is lost, and limits make batches small. Callers without limits have patience all
// the same, which nobody knows: when they give up they ask again, and leave their first tasks in the queue. Once it is
// full of those, nobody is answered who still waits, and retries keep it full, also when the cause has long passed (a
// metastable failure: Bronson et al., HotOS 2021).
//
// So from the first task of a version that there is no capacity for, until none waits, the newest of a priority go
// first (adaptive LIFO: Maurer, Fail at Scale, ACM Queue 2015). They have the most time left, so that batches are full
// and answers early. Those that were overtaken get what capacity is left; they are given up as soon as the newer ones
// would make them late, which is early enough to try elsewhere.

// flooded notes that there was no capacity for a task.
func (v *version) flooded(t *Task) {
	if t.Priority.class() == foreground {
		v.newestFirst = v.queued[foreground] > 0
	}
}

// ahead returns the target with which a task stands before all of its rank, but for one that was begun.
func (c *Core) ahead(q *queue, place ring.Order) int64 {
	first := q.ring.Rank(place.Rank)
	switch {
	case first == nil:
		return place.Target
	case c.tasks[first.Task].next > 0:
		return min(place.Target, first.Target)
	}
	return min(place.Target, first.Target-1)
}

// mostOvertaken is how many tasks are given up, at most, for one that overtook them.
const mostOvertaken = 2

// dropOvertaken gives up the last tasks of the queue if the work before them makes them late, as they would be refused
// if they arrived now.
func (c *Core) dropOvertaken(now Time, q *queue, out *Answer) {
	for range mostOvertaken {
		if q.foreground < 2 {
			return
		}
		slot := q.ring.At(q.foreground - 1).Task
		t := &c.tasks[slot]
		own, known := c.serviceTime(q, t.alone, t.rows-t.next)
		needs := q.device.freeIn(now) + (q.work-t.work)/q.device.parallel() + own
		if !known || needs <= t.deadline().Sub(now) || t.next > 0 { // one that was begun has cost already
			return
		}
		c.drop(now, q, slot, DropOvertaken, needs, out)
		c.refreshTouched(now)
	}
}
