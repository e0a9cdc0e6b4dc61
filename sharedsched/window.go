package sharedsched

import (
	"cmp"
	"slices"
	"time"
)

// Of the tasks that wait, those with the latest limits are together in time in the largest batch. The window is the one
// of these batches that answers the most rows in time for its device time. The tasks whose limits are too early for it
// are given up, if a batch from the head on that is sure to be in time is clearly worse. Queues of several flows for
// one key share their batches (along.go), and so a window: if each flow had its own, each of many flows would have a
// few tasks, and be served at their last moments.
//
// A task whose limit is at the expected end of a batch is in time in every second case, and one whose limit is when the
// batch hardly takes longer always. In between the chance to be late falls as a parabola.

// window is how limits bound a batch.
type window struct {
	rows int // the most that it may have
	// line: tasks with limits before it are given up for the others; 0: none are
	line Time
	// rank is that of the task of the batch that matters least. One that matters more is not given up.
	rank  uint8
	takes time.Duration // until its expected end
}

// candidate stands for the rows of a waiting task that a batch could have.
type candidate struct {
	rows   int
	limit  Time // the batch must end by then, where tasks in front of one that joins may be given up
	strict Time // of one that joins: the batch must end by then, where no task is given up
	rank   uint8
	joins  int8 // 1: the task is of another flow
}

// giveUp drops tasks whose limits would make the next batch so small that others would miss theirs. It returns the rows
// that the batch may have, and the line before which tasks of other flows are dropped as others join. There are no rows
// where all of the queue's tasks for the batch were dropped. The head is not hopeless.
func (c *Core) giveUp(now Time, q *queue, out *Answer) window {
	most, _, high := c.fullBatch(q)
	if first := &c.tasks[q.ring.At(0).Task]; high == 0 || first.alone || !q.version.settings.Batched {
		return window{rows: most}
	}
	d := q.device
	k, grow := classOf(q.ring.At(0).order), 0
	if k == foreground {
		grow = c.mayGrow(q)
		if s := &q.version.settings; len(s.AllowedBatchSizes) > 0 {
			grow = min(grow, s.padded(min(q.waiting, most))) // joining is not to need another size
		}
	}
	// The common case costs one comparison for each task of the batch.
	end := d.free.Add(q.high(min(most, max(q.waiting, grow))))
	if !c.tight(q, most, end) {
		return window{rows: most}
	}
	c.sift(now, q, k, most, out)
	own := len(c.candidates)
	c.siftOthers(now, q, grow)
	few := c.fit(q, k, most, grow) // rows of the batch if no task is given up
	nobodyElse := len(c.candidates) == d.foreground && !q.flow.beyond
	c.leaveOutLesser(end)
	kept := float64(few) / float64(q.costOf(few))
	var w window
	rate, several := 0.0, d.shared() || d.inFlight+1 == d.Lanes // else another lane is free
	if several {
		w, rate = c.window(now, q, own, most, grow, true)
		several = worthSpare*kept < (worthSpare-1)*rate
	}
	if !several { // perhaps others of the queue alone are worth it
		w, rate = c.window(now, q, own, most, 0, false)
	}
	if worthSpare*kept >= (worthSpare-1)*rate || c.variant.NoWindowDrop || nobodyElse && c.canWait(q, few, most) {
		return window{rows: few}
	}
	w.takes = d.free.Add(q.costOf(w.rows)).Sub(now)
	rows := c.leave(now, q, own, w, out)
	if !several {
		w.line = 0
	}
	if rows == 0 {
		// The batch would be of others, and each of their first tasks would be given up at a pick of its own.
		c.leaveOthers(now, q, w, out)
		return window{}
	}
	return w
}

// canWait reports whether all candidates behind a batch of that many rows are sure to be in time in a second one.
func (c *Core) canWait(q *queue, few, most int) bool {
	rest := -few
	for i := range c.candidates {
		rest += c.candidates[i].rows
	}
	if rest <= 0 || rest > most {
		return rest <= 0
	}
	end := q.device.free.Add(q.costOf(few) + q.high(rest))
	for i := 0; rest > 0; i++ { // those with the latest limits first
		if c.candidates[i].limit < end {
			return false
		}
		rest -= c.candidates[i].rows
	}
	return true
}

// leave drops those of the first n tasks of the queue whose limits are before the line of a window, and returns how
// many rows are left, at most those of the window.
func (c *Core) leave(now Time, q *queue, n int, w window, out *Answer) (rows int) {
	for i := 0; n > 0 && rows < w.rows; n-- {
		slot := q.ring.At(i).Task
		t := &c.tasks[slot]
		if t.deadline() < w.line {
			c.drop(now, q, slot, DropWindow, w.takes, out)
			continue
		}
		rows += t.rows - t.next
		i++
	}
	return rows
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

// sift gives up hopeless tasks at the front of the queue, limits being in no order. The others are the candidates,
// until there is a batch of size rows that is sure to meet their limits.
func (c *Core) sift(now Time, q *queue, k class, size int, out *Answer) {
	c.candidates = c.candidates[:0]
	end := q.device.free.Add(q.high(size))
	for loose := 0; len(c.candidates) < min(q.ring.Len(), lookedAt) && loose < size; {
		slot := q.ring.At(len(c.candidates)).Task
		t := &c.tasks[slot]
		if t.alone || classOf(t.order) != k {
			break
		}
		if needs, hopeless := c.hopeless(q, t); hopeless {
			c.drop(now, q, slot, DropHopeless, needs, out)
			continue
		}
		l := candidate{rows: t.rows - t.next, limit: t.deadline(), rank: t.rank}
		c.candidates = append(c.candidates, l)
		if l.limit >= end {
			loose += l.rows
		}
	}
}

// siftOthers adds the tasks of other flows that could join a batch of the queue with at most so many rows. None joins
// before the one in front of it, unless that may be given up: no flow within its share gives up any for one beyond its.
func (c *Core) siftOthers(now Time, q *queue, most int) {
	if most == 0 {
		return
	}
	g, left := q.kin, lookedAt
	for i := range g.queues {
		other := g.queues[(int(q.place)+i)%len(g.queues)]
		if other == nil || other == q || other.foreground == 0 || !c.mayJoin(q, other) {
			continue
		}
		limit, strict, rank := Never, Never, uint8(backgroundRank) // of those in front
		for j := range min(other.foreground, lookedAtEach, left) {
			t := &c.tasks[other.ring.At(j).Task]
			if t.alone || t.rows-t.next > most {
				break
			}
			l := candidate{rows: t.rows - t.next, limit: t.deadline(), rank: t.rank, joins: 1}
			strict = min(strict, l.limit)
			if l.strict = strict; rank < l.rank || !q.mayDisplace(other) { // one in front matters more
				limit = min(limit, strict)
			}
			l.limit = min(l.limit, limit)
			limit, rank = min(limit, t.ifNew(now)), min(rank, l.rank)
			c.candidates = append(c.candidates, l)
			left--
		}
	}
}

// mayDisplace reports whether tasks of another queue may be given up for a window of this one.
func (q *queue) mayDisplace(other *queue) bool { return other.flow.beyond || !q.flow.beyond }

// leaveOutLesser takes away the candidates that matter less than one of the queue whose limit is before that time:
// that is not given up for them.
func (c *Core) leaveOutLesser(end Time) {
	least := uint8(backgroundRank)
	for i := range c.candidates {
		if l := &c.candidates[i]; l.joins == 0 && l.limit < end {
			least = min(least, l.rank)
		}
	}
	c.candidates = slices.DeleteFunc(c.candidates, func(l candidate) bool { return l.rank > least })
}

// leaveOthers drops the first tasks of other flows that would be given up for a window of the queue.
func (c *Core) leaveOthers(now Time, q *queue, w window, out *Answer) {
	for _, other := range q.kin.queues {
		if other == nil || other == q || other.foreground == 0 || !c.mayJoin(q, other) {
			continue
		}
		for other.foreground > 0 && c.givesUp(now, q, other, 0, w) {
			c.drop(now, other, other.ring.At(0).Task, DropWindow, w.takes, out)
		}
	}
}

// givesUp reports whether the ith task of another queue is to be given up for a window of this one.
func (c *Core) givesUp(now Time, q, other *queue, i int, w window) bool {
	t := &c.tasks[other.ring.At(i).Task]
	return t.deadline() < w.line && t.rank >= w.rank && t.ifNew(now) >= w.line && !t.alone && q.mayDisplace(other)
}

// ifNew returns the limit that the task would have if it came now: it is given up for tasks of other flows only where a
// new one of its flow would be in time, or callers in a hurry would always lose to those who are not.
func (t *task) ifNew(now Time) Time {
	if t.deadline() == Never {
		return Never
	}
	return now.Add(t.limit.Sub(t.arrival))
}

// mayLose reports whether it is fair to the first n tasks of the queue if those with limits before the line of a
// window, which may be of several flows, are given up.
func (c *Core) mayLose(now Time, q *queue, n int, w window, several bool) bool {
	for i := range n {
		t := &c.tasks[q.ring.At(i).Task]
		if t.deadline() < w.line && (t.rank < w.rank || several && t.ifNew(now) < w.line) {
			return false
		}
	}
	return true
}

// fit returns the most rows from the head on, and of other flows, that a batch may have so that all of its tasks are
// sure to meet their limits: at least the rows that the head needs.
func (c *Core) fit(q *queue, k class, size, grow int) int {
	rows, soonest := 0, Never
	for i := 0; i < q.ring.Len() && rows < size; i++ {
		t := &c.tasks[q.ring.At(i).Task]
		if rows > 0 && (t.alone || classOf(t.order) != k) {
			break
		}
		soonest = min(soonest, t.deadline())
		next := min(rows+t.rows-t.next, size)
		if rows > 0 && soonest < q.device.free.Add(q.high(next)) {
			return rows
		}
		rows = next
	}
	if rows >= grow {
		return rows
	}
	slices.SortFunc(c.candidates, func(a, b candidate) int {
		return cmp.Or(cmp.Compare(b.strict, a.strict), cmp.Compare(a.rows, b.rows))
	})
	for i := range c.candidates {
		l := &c.candidates[i]
		if l.joins == 0 || rows+l.rows > grow {
			continue
		}
		if min(soonest, l.strict) < q.device.free.Add(q.high(rows+l.rows)) {
			break
		}
		rows += l.rows
	}
	return rows
}

// window returns the best batch of candidates, those of other flows up to grow rows, for which it is fair that the
// first own tasks of the queue are given up, and how many rows it is expected to answer in time per nanosecond of
// device time.
func (c *Core) window(now Time, q *queue, own, most, grow int, several bool) (best window, rate float64) {
	slices.SortFunc(c.candidates, func(a, b candidate) int {
		return cmp.Or(cmp.Compare(b.limit, a.limit), cmp.Compare(a.joins, b.joins), cmp.Compare(a.rank, b.rank),
			cmp.Compare(a.rows, b.rows))
	})
	all, sure, fits := 0, 0, true // rows
	for i := range c.candidates {
		l := &c.candidates[i]
		if l.joins > 0 && all+l.rows > grow {
			continue
		}
		all = min(all+l.rows, most)
		if fits = fits && l.limit >= q.device.free.Add(q.high(all)); fits {
			sure = all
		}
	}
	// A smaller batch than one that is sure is hardly ever better.
	for n := max(sure, 1); n <= all; n = max(n+1, min(n+n/windowSteps, all)) {
		if w, r := c.windowOf(q, n, grow); r > rate && c.mayLose(now, q, own, w, several) {
			best, rate = w, r
		}
	}
	return best, rate
}

// windowOf returns the batch of the candidates with the latest limits, with at most so many rows, and its rate.
func (c *Core) windowOf(q *queue, most, grow int) (w window, rate float64) {
	cost, high := q.costOf(most), q.high(most)
	end, sure := q.device.free.Add(cost), q.device.free.Add(high)
	w.line = end.Add((high - cost) / lineAt)
	for i := range c.candidates {
		l := &c.candidates[i]
		if l.limit < end || w.rows == most {
			break
		}
		rows, inTime := min(l.rows, most-w.rows), 1.0
		if rows < l.rows && (l.joins > 0 || l.rows <= most) || l.joins > 0 && w.rows+rows > grow {
			continue // it is not split
		}
		if l.limit < sure {
			late := float64(sure-l.limit) / float64(sure-end)
			inTime -= late * late / 2
		}
		rate += float64(rows) * inTime / float64(cost)
		w.rows, w.line, w.rank = w.rows+rows, min(w.line, l.limit), max(w.rank, l.rank)
	}
	return w, rate
}
