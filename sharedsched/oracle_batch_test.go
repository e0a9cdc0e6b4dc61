package sharedsched

import (
	"slices"
	"time"
)

// oracleSpan is a range of rows of a task in a batch.
type oracleSpan struct {
	task        Handle
	first, rows int
}

// next decides for a free lane which tasks are given up, in which order, and which rows it takes from which queue. The
// batch is empty if there is none.
func (o *oracle) next(now Time) (gone []Handle, served *oracleQueue, k class, spans []oracleSpan) {
	gone = o.advance(now)
	for {
		q, k := o.pick(now)
		if q == nil {
			return gone, nil, k, nil
		}
		// A task that would miss its limit even if it ran alone now is given up, and without it another queue may be
		// more urgent.
		q.setBack(now, o.low(q.flow))
		hopeless := 0
		for len(q.tasks) > 0 && q.hopeless(now, q.tasks[0]) {
			gone = append(gone, q.remove(0))
			hopeless++
		}
		if hopeless > 0 {
			o.look(now, q)
			continue
		}
		dropped, most := o.giveUp(now, q)
		gone = append(gone, dropped...)
		spans = o.form(now, q, min(most, o.mayBlock(q)))
		return gone, q, k, spans
	}
}

// hopeless reports whether a task would miss its limit even if it ran alone now.
func (q *oracleQueue) hopeless(now Time, t *oracleTask) bool {
	takes := q.takes(t.rows - t.next)
	if !t.alone && q.version.Batched {
		takes = q.alone(min(t.rows-t.next, q.most()))
	}
	return t.limit < now.Add(takes)
}

// remove gives up a task.
func (q *oracleQueue) remove(i int) Handle {
	t := q.tasks[i]
	q.tasks = slices.Delete(q.tasks, i, i+1)
	return t.handle
}

// giveUp drops the tasks whose limits would cut the next batch short, if it is worth it, and returns the rows that it
// may have.
func (o *oracle) giveUp(now Time, q *oracleQueue) (gone []Handle, rows int) {
	most := q.most()
	if q.whole() || !q.tight(now.Add(q.high(most))) {
		return nil, most
	}
	// The hopeless are given up, until there is a full batch of others whose limits are not before its expected end.
	expected, front := min(q.waiting(), most), q.tasks[0].rank != backgroundRank
	if front {
		expected = max(expected, o.mayGrow(q))
	}
	end, loose, n := now.Add(q.takes(expected)), 0, 0
	lost, gained := 99, -1 // ranks: of the tasks that would be lost the one that matters most, and the other way round
	for n < q.together() && loose < most {
		t := q.tasks[n]
		if q.hopeless(now, t) {
			gone = append(gone, q.remove(n))
			continue
		}
		if n++; t.limit >= end {
			loose += t.rows - t.next
			gained = max(gained, int(t.rank))
		} else {
			lost = min(lost, int(t.rank))
		}
	}
	few, many, company := q.fit(now), min(loose, most), 0
	if front {
		company = o.loose(q, end, most-loose)
	}
	if many == 0 || lost < gained || 10*int64(few)*int64(q.high(many)) >= 8*int64(many)*int64(q.high(few)) {
		return gone, few
	}
	for i, rows := 0, 0; i < q.together() && rows < many; {
		if q.tasks[i].limit < end {
			gone = append(gone, q.remove(i))
			continue
		}
		rows += q.tasks[i].rows - q.tasks[i].next
		i++
	}
	return gone, min(loose+company, most)
}

// together returns how many tasks at the head of the queue may be weighed against each other: no foreground task is
// given up for a background one, nor any for one that runs alone.
func (q *oracleQueue) together() (n int) {
	for n < len(q.tasks) && q.tasks[n].order().Rank == q.tasks[0].order().Rank && !q.tasks[n].alone {
		n++
	}
	return n
}

// tight reports whether a task of the next full batch has its limit before the end of that.
func (q *oracleQueue) tight(end Time) bool {
	rows := 0
	for _, t := range q.tasks {
		if rows < q.most() && t.limit < end {
			return true
		}
		rows += t.rows - t.next
	}
	return false
}

// fit returns how many rows from the head on make a batch that meets all limits.
func (q *oracleQueue) fit(now Time) (rows int) {
	soonest := Never
	for _, t := range q.tasks {
		soonest = min(soonest, t.limit)
		grown := min(rows+t.rows-t.next, q.most())
		if rows > 0 && soonest < now.Add(q.high(grown)) {
			break
		}
		rows = grown
	}
	return rows
}

// form takes at most that many rows from the queue for the next batch.
func (o *oracle) form(now Time, q *oracleQueue, most int) (spans []oracleSpan) {
	if q.whole() {
		return q.take(1<<30, spans)
	}
	most = q.policy(most)
	rows := 0
	behind, joined := q.tasks[0].rank != backgroundRank, false
	for n := 0; rows < most; n++ {
		if behind && o.beyond(q.flow) && n == 1 {
			if spans, rows = o.along(now, q, rows, most, spans, true); rows == most {
				break
			}
		}
		if behind && !joined && (len(q.tasks) == 0 || q.tasks[0].alone || q.tasks[0].rank == backgroundRank) {
			joined = true
			if spans, rows = o.along(now, q, rows, most, spans, false); rows == most {
				break
			}
		}
		if len(q.tasks) == 0 || q.tasks[0].alone {
			break
		}
		t := q.tasks[0]
		left, room := t.rows-t.next, most-rows
		if rows > 0 && behind && t.rank == backgroundRank {
			if left > min(room, q.padded(rows)-rows) {
				break
			}
		}
		if left > room && left <= most {
			break // it fits the next batch whole
		}
		spans = q.take(room, spans)
		if rows += min(left, room); rows == most {
			break
		}
	}
	return spans
}

func (q *oracleQueue) take(room int, spans []oracleSpan) []oracleSpan {
	t := q.tasks[0]
	rows := min(t.rows-t.next, room)
	spans = append(spans, oracleSpan{t.handle, t.next, rows})
	if t.next += rows; t.next == t.rows {
		q.tasks = q.tasks[1:]
	} else if t.place != int64(t.target) { // it was set back
		t.place = int64(t.target)
		slices.SortFunc(q.tasks, func(a, b *oracleTask) int {
			if a.order().Before(b.order()) {
				return -1
			}
			return 1
		})
	}
	return spans
}

// policy returns how many rows the batch takes of those it could have, by the cost per row. Whole tasks may fill the
// smaller size; if they do not, so that one is cut or the size not filled, all waiting tasks must cost less that way.
func (q *oracleQueue) policy(most int) int {
	rows := min(most, q.waiting())
	down := q.below(rows)
	if down == 0 || down == rows {
		return most
	}
	whole, next := 0, 0
	for _, t := range q.tasks {
		if next = t.rows - t.next; whole+next > down {
			break
		}
		whole += next
	}
	perRow := func(rows int) float64 { return float64(q.takes(rows)) / float64(rows) }
	switch {
	case whole == down && perRow(down) < perRow(rows):
		return down
	case whole < down && next > down && q.inParts(rows, down) < q.takes(rows): // cut
		return down
	case whole < down && next <= down && q.takes(whole)+q.inParts(rows-whole, down) < q.takes(rows): // left
		return down
	}
	return most
}

// below returns the largest allowed size of at most that many rows, 0 for none.
func (q *oracleQueue) below(rows int) (down int) {
	for _, n := range q.version.AllowedBatchSizes {
		if n <= rows {
			down = n
		}
	}
	return down
}

// inParts returns the time of rows in executions of at most that many.
func (q *oracleQueue) inParts(rows, each int) (cost time.Duration) {
	for ; rows > 0; rows -= each {
		cost += q.takes(min(rows, each))
	}
	return cost
}

// alone returns the time of a task of that many rows that shares no execution.
func (q *oracleQueue) alone(rows int) time.Duration {
	down := q.below(rows)
	if down == 0 {
		return q.takes(rows)
	}
	return min(q.takes(rows), q.inParts(rows, down))
}
