package sharedsched

import (
	"time"

	"github.com/weftserve/weft/sharedsched/fairq"
	"github.com/weftserve/weft/sharedsched/iheap"
)

// Requests of several identities for one version and key could share an execution, though each waits in the queue of
// its flow. Were a batch to have rows of one flow only, the fixed cost of an execution would be paid once for each
// identity, and each would wait for the turns of all others. So a batch with room takes waiting tasks of the other
// flows along, the earliest due first, and each flow is charged for its part of the rows.
//
// Nobody may lose by it, and nobody get more than is his:
//
//   - All tasks of its own queue that can join have joined; but for a queue of a flow beyond its share, whose first
//     task only goes before those of flows within theirs: they could be served at once, and ask for no more than is
//     theirs.
//   - It is no longer than a batch of its own queue could be, but for the device cap at most, and every queue with such
//     company expects that (plan), so that others are urgent early enough.
//   - No limit is missed for it, of a task in the batch or of one that joins, unless a window is worth it (window.go).
//   - A flow beyond its share joins no batch of one within, which would be answered later for it; and of others only
//     where it is not far ahead of the flow furthest behind.
type kin struct {
	queues  []*queue // of one version and key, by place; nil when free
	n       int
	waiting iheap.Heap // places of those with foreground tasks, by when the first is due; kept where there are several
	rate    rate       // of all of them: a batch may have rows of each
}

// joinKin adds a new queue to those of its version and key.
func (c *Core) joinKin(q *queue) {
	g := q.version.kin[q.key]
	if g == nil {
		g = &kin{}
		q.version.kin[q.key] = g
	}
	q.kin = g
	q.place = takePlace(&g.queues, q)
	if g.n++; g.n == 2 {
		for _, other := range g.queues {
			if other != nil && other.foreground > 0 {
				g.waiting.Set(other.place, int64(c.firstDue(other)))
			}
		}
	}
}

// firstDue returns when the first task of the queue, which has one, is due.
func (c *Core) firstDue(q *queue) Time { return c.tasks[q.ring.At(0).Task].due }

// leaveKin takes out a queue that is dropped.
func (c *Core) leaveKin(q *queue) {
	g := q.kin
	c.company(q)
	g.queues[q.place] = nil
	if g.n--; g.n == 0 {
		delete(q.version.kin, q.key)
	}
}

// company notes whether foreground tasks wait in the queue, and when the first of them is due. A queue expects its
// batches to be longer where others could join it, so that one that had no company, or has none any more, is looked at.
func (c *Core) company(q *queue) {
	g := q.kin
	if g.n < 2 && g.waiting.Len() == 0 || g.queues[q.place] != q {
		return
	}
	before := g.waiting.Len()
	if q.foreground > 0 {
		g.waiting.Set(q.place, int64(c.firstDue(q)))
	} else {
		g.waiting.Remove(q.place)
	}
	if after := g.waiting.Len(); (before < 2) == (after < 2) {
		return
	}
	for _, nth := range [...]func(*iheap.Heap) (int32, int64, bool){(*iheap.Heap).Min, (*iheap.Heap).Second} {
		if place, _, ok := nth(&g.waiting); ok && place != q.place {
			c.touch(g.queues[place])
		}
	}
}

// mayGrow returns the most rows that others may make of a batch of the queue; 0 if there is nobody to join it.
func (c *Core) mayGrow(q *queue) int {
	if n := q.kin.waiting.Len(); n < 2 && (n == 0 || q.kin.waiting.Has(q.place)) || c.variant.NoCompany {
		return 0
	}
	return q.underCap
}

// takeAlong fills a batch of the queue with waiting foreground tasks of other flows, or only of those within their
// shares, to at most so many rows, and reports whether it has as many. With a window it drops tasks in front of others
// that join.
func (c *Core) takeAlong(now Time, q *queue, b *Batch, most int, w window, within bool, out *Answer) (full bool) {
	s := &q.version.settings
	limit := min(most, c.mayGrow(q))
	if len(s.AllowedBatchSizes) > 0 { // the batch was brought to one of them: joining is not to need another one
		limit = min(limit, s.padded(b.Rows))
	}
	g, end := q.kin, q.device.free.Add(q.high(limit))
	if w.line > 0 {
		end = w.line
	}
	c.passed = c.passed[:0]
	for b.Rows < limit && len(c.passed) < lookedAt {
		place, _, ok := g.waiting.Min()
		if !ok {
			break
		}
		g.waiting.Remove(place)
		c.passed = append(c.passed, place)
		if other := g.queues[place]; other != q && other.foreground > 0 && c.mayJoin(q, other) &&
			!(within && other.flow.beyond) {
			c.setBack(now, other)
			c.join(now, q, other, b, limit, end, w, out)
		}
	}
	for _, place := range c.passed {
		due := Time(0) // of one that has none left: its refresh takes it out
		if other := g.queues[place]; other.foreground > 0 {
			due = c.firstDue(other)
		}
		g.waiting.Set(place, int64(due))
	}
	return b.Rows == most
}

// mayJoin reports whether tasks of another queue may be taken along by a batch of q: those of a flow within its share,
// for there is enough for all that it asks for; and of one beyond its share where the flow of q is beyond its own, too,
// and the other is ahead of the one furthest behind by no more than the batch takes.
func (c *Core) mayJoin(q, other *queue) bool {
	fair, f := &q.device.fair[foreground], other.flow
	if other.shape != q.shape { // the key is to decide on it, but nobody knows
		return false
	}
	return !f.beyond || q.flow.beyond && (fair.Len() == 0 || fair.Lead(fairq.Flow(f.id)) <= fairq.Tag(q.cost))
}

// join moves tasks of another queue into the batch, as long as they fit in whole and their limits are not before its
// end. Those in front of one that joins may be given up.
func (c *Core) join(now Time, q, other *queue, b *Batch, limit int, end Time, w window, out *Answer) {
	for i := 0; i < other.foreground; {
		t := &c.tasks[other.ring.At(i).Task]
		left := t.rows - t.next
		switch {
		case c.givesUp(now, q, other, i, w):
			i++ // if one behind it joins
			continue
		case t.alone || left > limit-b.Rows || t.deadline() < end:
			return
		}
		for ; i > 0; i-- {
			c.drop(now, other, other.ring.At(0).Task, DropWindow, w.takes, out)
		}
		c.takeRows(now, other, left, b)
		other.served = true
		c.touch(other)
	}
}

// mixed reports whether the batch of a queue has rows of others. Those of its own stand first.
func (c *Core) mixed(q *queue, b *Batch) bool {
	if q.kin.n < 2 {
		return false
	}
	for i := len(b.Spans) - 1; i > 0; i-- {
		if c.get(b.Spans[i].task).queue != q {
			return true
		}
	}
	return false
}

// stretch returns the queue of the spans of a batch that begin with the i-th, how many there are, and their part of a
// device time, by rows. The parts of all stretches sum to the whole.
func (c *Core) stretch(l *lane, b *Batch, i int, whole time.Duration) (q *queue, spans int, part time.Duration) {
	if !l.mixed {
		return l.queue, len(b.Spans), whole
	}
	before := 0
	for _, s := range b.Spans[:i] {
		before += s.Rows
	}
	rows := before
	q = c.get(b.Spans[i].task).queue
	for _, s := range b.Spans[i:] {
		if c.get(s.task).queue != q {
			break
		}
		rows += s.Rows
		spans++
	}
	upTo := func(rows int) time.Duration { return whole * time.Duration(rows) / time.Duration(b.Rows) }
	return q, spans, upTo(rows) - upTo(before)
}
