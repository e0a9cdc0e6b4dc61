package sharedsched

import (
	"time"
)

// In overload some tasks must lose. Served strictly in order, every task would be served at its last moment, in batches
// of the few that still meet their limits, and the device would be wasted on fixed costs. Instead the tasks whose
// limits would cut the next batch short are given up, if the batch is worth it (early drop: Nexus, Shen et al., SOSP
// 2019; window.go).

// dropHopeless gives up tasks at the head of the queue that are expected to miss their limits even if they ran alone
// now.
func (c *Core) dropHopeless(now Time, q *queue, out *Answer) {
	if _, _, high := c.fullBatch(q); high == 0 {
		return
	}
	for q.ring.Len() > 0 {
		slot := q.ring.At(0).Task
		needs, hopeless := c.hopeless(q, &c.tasks[slot])
		if !hopeless {
			break
		}
		c.drop(now, q, slot, DropHopeless, needs, out)
	}
}

// hopeless reports whether a task is expected to miss its limit even if it ran alone now, and how long it would run.
func (c *Core) hopeless(q *queue, t *task) (needs time.Duration, hopeless bool) {
	rows := t.rows - t.next
	each := rows
	if !t.alone && q.version.settings.Batched {
		// Nearly every task meets its limit even in a full batch, and that is cheap to see.
		if t.deadline() >= q.device.free.Add(q.fullHigh) {
			return 0, false
		}
		rows = min(rows, q.most)
		each = q.piece(rows)
	}
	cost := q.inParts(rows, each)
	return cost, t.deadline() < q.device.free.Add(cost)
}

// drop gives up a waiting task of the queue.
func (c *Core) drop(now Time, q *queue, slot int32, why DropReason, needs time.Duration, out *Answer) {
	c.log.drop(now, q.version, &c.tasks[slot], why, needs)
	had := c.tasks[slot].limit.Sub(now)
	before := len(out.Actions)
	c.stop(now, slot, EndDropped, out)
	if len(out.Actions) > before { // else some of its rows are running
		a := &out.Actions[before]
		a.Drop, a.Had, a.Needs, a.RetryAfter = why, had, needs, q.full.Cost
	}
}
