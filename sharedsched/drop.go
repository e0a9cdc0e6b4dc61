package sharedsched

import (
	"time"
)

// In overload some tasks must lose. Served strictly in order, every task would be served at its last moment, in batches
// of the few that still meet their limits, and the device would be wasted on fixed costs. Instead the tasks whose
// limits would cut the next batch short are given up, if the batch is worth it (early drop: Nexus, Shen et al., SOSP
// 2019).

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

// giveUp drops tasks whose limits would make the next batch so small that others would miss theirs. It returns the most
// rows that the batch may have so that all tasks that stay in it are expected to meet their limits. The head is not
// hopeless.
//
// A batch is made so small that its tasks are sure to meet their limits, but only those are given up that are expected
// to miss them: where times differ much, most that may be late are not.
func (c *Core) giveUp(now Time, q *queue, out *Answer) int {
	most, _, high := c.fullBatch(q)
	if first := &c.tasks[q.ring.At(0).Task]; high == 0 || first.alone || !q.version.settings.Batched {
		return most
	}
	// The common case costs one comparison for each task of the batch.
	if !c.tight(q, most, q.device.free.Add(high)) {
		return most
	}
	k := classOf(q.ring.At(0).order)
	end, loose, fair := c.sift(now, q, k, most, out)
	company := 0 // rows of other flows that such a batch could have
	if k == foreground {
		company = c.companyOf(q, end, most-loose)
	}
	few := c.fit(q, most)    // rows of the batch if no task is given up
	many := min(loose, most) // rows of the batch if the tasks with limits before its end are given up
	if !fair || c.variant.NoWindowDrop ||
		worthSpare*int64(few)*int64(q.high(many)) >= (worthSpare-1)*int64(many)*int64(q.high(few)) {
		return few
	}
	needs := end.Sub(now)
	for i, rows := 0, 0; i < q.ring.Len() && rows < many; {
		slot := q.ring.At(i).Task
		t := &c.tasks[slot]
		if t.alone || classOf(t.order) != k {
			break
		}
		if t.deadline() < end {
			c.drop(now, q, slot, DropWindow, needs, out)
			continue
		}
		rows += t.rows - t.next
		i++
	}
	return min(loose+company, most)
}

// tight reports whether one of the tasks of the next rows has its limit before end.
func (c *Core) tight(q *queue, rows int, end Time) bool {
	for i := 0; i < q.ring.Len() && rows > 0; i++ {
		t := &c.tasks[q.ring.At(i).Task]
		if t.deadline() < end {
			return true
		}
		rows -= t.rows - t.next
	}
	return false
}

// sift gives up hopeless tasks at the front of the queue, limits being in no order, until it has found a full batch of
// others whose limits are not before the expected end of that. It returns that end, how many such rows there are, and
// whether none of the tasks in between matters more than one of these.
func (c *Core) sift(now Time, q *queue, k class, most int, out *Answer) (end Time, loose int, fair bool) {
	rows := min(q.waiting, most)
	if k == foreground {
		rows = max(rows, c.mayGrow(q))
	}
	rows = q.version.settings.padded(rows)
	end = q.device.free.Add(q.estimate(rows).Cost)
	lost, gained := uint8(backgroundRank), uint8(0)
	for i := 0; i < min(q.ring.Len(), lookedAt) && loose < most; {
		slot := q.ring.At(i).Task
		t := &c.tasks[slot]
		if t.alone || classOf(t.order) != k {
			break
		}
		if needs, hopeless := c.hopeless(q, t); hopeless {
			c.drop(now, q, slot, DropHopeless, needs, out)
			continue
		}
		if t.deadline() >= end {
			loose += t.rows - t.next
			gained = max(gained, t.rank)
		} else {
			lost = min(lost, t.rank)
		}
		i++
	}
	return end, loose, lost >= gained
}

// fit returns the most rows from the head on, and of other flows, that a batch may have so that all of its tasks meet
// their limits: at least the rows that the head needs.
func (c *Core) fit(q *queue, most int) int {
	rows := 0
	soonest := Never
	for i := 0; i < q.ring.Len() && rows < most; i++ {
		t := &c.tasks[q.ring.At(i).Task]
		soonest = min(soonest, t.deadline())
		next := min(rows+t.rows-t.next, most)
		if rows > 0 && soonest < q.device.free.Add(q.high(next)) {
			return rows
		}
		rows = next
	}
	return rows
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
