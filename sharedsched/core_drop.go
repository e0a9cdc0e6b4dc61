package sharedsched

import "time"

// In overload somebody must lose. Served strictly in order, every task would be served at its last moment, in batches of the
// few that still make it, and the device would be wasted on their fixed costs. Instead the window of tasks that goes into the
// next batch slides forward until the batch is worth its cost, and the tasks before it are given up at once (early drop: Nexus,
// Shen et al., SOSP 2019).

// dropHopeless gives up tasks at the head of the queue that are expected to miss their limits even if they ran alone now.
func (c *Core) dropHopeless(now Time, q *queue, acts []Action) []Action {
	most, _, high := c.fullBatch(q)
	if high == 0 {
		return acts
	}
	for q.ring.n > 0 {
		t := &c.tasks[q.ring.at(0).task]
		if t.deadline() >= now.Add(high) {
			break
		}
		rows := t.rows - t.next
		if !t.alone && q.version.settings.Batched {
			rows = min(rows, most)
		}
		least := q.shape.Estimate(q.version.settings.padded(rows)).Cost
		if t.deadline() >= now.Add(least+least/margin) {
			break
		}
		acts = c.drop(now, q, DropHopeless, least, acts)
	}
	return acts
}

// giveUp drops tasks from the head of the queue whose limits would make the batch so small that others would miss theirs. It
// returns the most rows that the batch may have so that those who stay meet their limits.
func (c *Core) giveUp(now Time, q *queue, acts []Action) (int, []Action) {
	most, _, high := c.fullBatch(q)
	if first := &c.tasks[q.ring.at(0).task]; high == 0 || first.alone || !q.version.settings.Batched {
		return most, acts
	}
	// The common case costs one comparison for each task of the batch.
	if !c.tight(q, most, now.Add(high)) {
		return most, acts
	}
	skip, rows := c.window(now, q, most)
	for range skip {
		acts = c.drop(now, q, DropWindow, q.high(rows), acts)
	}
	return rows, acts
}

// tight reports whether one of the tasks of the next rows has its limit before end.
func (c *Core) tight(q *queue, rows int, end Time) bool {
	for i := 0; i < q.ring.n && rows > 0; i++ {
		t := &c.tasks[q.ring.at(i).task]
		if t.deadline() < end {
			return true
		}
		rows -= t.rows - t.next
	}
	return false
}

// window chooses which tasks make the next batch: how many to give up at the head, and how many rows to take after them. The
// first task is not hopeless.
func (c *Core) window(now Time, q *queue, most int) (skip, rows int) {
	few := c.fit(now, q, most) // with the head, as many as its limit allows
	// The first task from which on a batch of all that waits, up to a full one, survives.
	left := q.waiting
	for ; skip < q.ring.n; skip++ {
		t := &c.tasks[q.ring.at(skip).task]
		if t.deadline() >= now.Add(q.high(min(left, most))) {
			break
		}
		left -= t.rows - t.next
	}
	many := min(left, most)
	if skip == 0 || many <= 0 || c.variant.NoWindowDrop ||
		worthNum*int64(few)*int64(q.high(many)) >= worthDen*int64(many)*int64(q.high(few)) {
		return 0, few
	}
	return skip, many
}

// worth is how many times the rows per device time a batch without the head must have, for the head to be given up.
const worthNum, worthDen = 10, 7

// fit returns the most rows from the head on that a batch may have so that all of its tasks meet their limits: at least what
// the head needs.
func (c *Core) fit(now Time, q *queue, most int) int {
	rows := 0
	soonest := Never
	for i := 0; i < q.ring.n && rows < most; i++ {
		t := &c.tasks[q.ring.at(i).task]
		soonest = min(soonest, t.deadline())
		next := min(rows+t.rows-t.next, most)
		if rows > 0 && soonest < now.Add(q.high(next)) {
			break
		}
		rows = next
	}
	return rows
}

// drop gives up the task at the head of the queue.
func (c *Core) drop(now Time, q *queue, why DropReason, needs time.Duration, acts []Action) []Action {
	slot := q.ring.at(0).task
	c.log.drop(now, q.version, &c.tasks[slot], why, needs)
	before := len(acts)
	acts = c.stop(now, slot, EndDropped, acts)
	if len(acts) > before { // else some of its rows are running
		acts[before].RetryAfter = q.fullCost
	}
	return acts
}
