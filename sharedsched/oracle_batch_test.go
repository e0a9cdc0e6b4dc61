package sharedsched

import (
	"cmp"
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
		dropped, w := o.giveUp(now, q)
		gone = append(gone, dropped...)
		if w.rows == 0 {
			o.look(now, q)
			continue
		}
		dropped, spans = o.form(now, q, min(w.rows, o.mayBlock(q)), w)
		return append(gone, dropped...), q, k, spans
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

// oracleWindow is how limits bound a batch: its rows, before which limits tasks are given up, and the rank of its task
// that matters least.
type oracleWindow struct {
	rows int
	line Time
	rank uint8
}

// oracleCandidate is a task that could be in a batch: limit and strict are those by which it can be served, where those
// in front of it may be given up, and where not.
type oracleCandidate struct {
	t             *oracleTask
	limit, strict Time
	joins         bool
}

func (k *oracleCandidate) rows() int { return k.t.rows - k.t.next }

// giveUp drops the tasks whose limits would cut the next batch short, if it is worth it.
func (o *oracle) giveUp(now Time, q *oracleQueue) (gone []Handle, w oracleWindow) {
	most, grow := q.most(), 0
	if q.whole() {
		return nil, oracleWindow{rows: most}
	}
	if q.tasks[0].rank != backgroundRank {
		if grow = o.mayGrow(q); len(q.version.AllowedBatchSizes) > 0 {
			grow = min(grow, q.padded(min(q.waiting(), most)))
		}
	}
	end := now.Add(q.high(min(most, max(q.waiting(), grow))))
	if !q.tight(end) {
		return nil, oracleWindow{rows: most}
	}
	// The hopeless are given up, until there is a full batch of others whose limits are surely not before its end.
	var own []oracleCandidate
	for n, loose := 0, 0; n < q.together() && loose < most; {
		t := q.tasks[n]
		if q.hopeless(now, t) {
			gone = append(gone, q.remove(n))
			continue
		}
		n++
		own = append(own, oracleCandidate{t: t, limit: t.limit})
		if t.limit >= now.Add(q.high(most)) {
			loose += t.rows - t.next
		}
	}
	all := append(slices.Clone(own), o.joining(now, q, grow)...)
	few := q.fit(now, all, grow)
	kept := 10 * (float64(few) / float64(q.takes(few)))
	foreground := 0 // tasks that wait
	for _, other := range o.queues {
		for _, t := range other.tasks {
			if t.rank != backgroundRank {
				foreground++
			}
		}
	}
	patient := foreground == len(all) && !o.beyond(q.flow)
	least := uint8(backgroundRank)
	for _, k := range own {
		if k.limit < end {
			least = min(least, k.t.rank)
		}
	}
	all = slices.DeleteFunc(all, func(k oracleCandidate) bool { return k.t.rank > least })
	var best oracleWindow
	rate, several := 0.0, o.lanes == 1 || o.last() > 0
	if several {
		best, rate = q.window(now, own, all, most, grow, true)
		several = kept < 9*rate
	}
	if !several {
		best, rate = q.window(now, own, all, most, 0, false)
	}
	if kept >= 9*rate || patient && q.canWait(now, all, few) {
		return gone, oracleWindow{rows: few}
	}
	rows := 0
	for i, n := 0, len(own); n > 0 && rows < best.rows; n-- {
		if q.tasks[i].limit < best.line {
			gone = append(gone, q.remove(i))
			continue
		}
		rows += q.tasks[i].rows - q.tasks[i].next
		i++
	}
	if !several {
		best.line = 0
	}
	if rows > 0 {
		return gone, best
	}
	for _, other := range o.others(q) {
		for o.mayJoin(q, other.flow) && len(other.tasks) > 0 && o.givesUp(now, q, other.tasks[0], best) {
			gone = append(gone, other.remove(0))
		}
		o.look(now, other)
	}
	return gone, oracleWindow{}
}

// canWait reports whether all candidates that are not among the first rows are surely in time in the next batch.
func (q *oracleQueue) canWait(now Time, of []oracleCandidate, few int) bool {
	slices.SortStableFunc(of, byLimit)
	rest := -few
	for _, k := range of {
		rest += k.rows()
	}
	if rest > q.most() {
		return false
	}
	end := now.Add(q.takes(few) + q.high(max(rest, 1)))
	for _, k := range of {
		if rest > 0 && k.limit < end {
			return false
		}
		rest -= k.rows()
	}
	return true
}

// givesUp reports whether a task of another queue is given up for a window of q.
func (o *oracle) givesUp(now Time, q *oracleQueue, t *oracleTask, w oracleWindow) bool {
	return t.limit < w.line && !t.alone && t.rank != backgroundRank && t.rank >= w.rank &&
		now+t.limit-t.arrival >= w.line && (o.beyond(t.queue.flow) || !o.beyond(q.flow))
}

func byLimit(a, b oracleCandidate) int {
	own := func(k oracleCandidate) int { return map[bool]int{false: 0, true: 1}[k.joins] }
	return cmp.Or(cmp.Compare(b.limit, a.limit), cmp.Compare(own(a), own(b)), cmp.Compare(a.t.rank, b.t.rank),
		cmp.Compare(a.rows(), b.rows()))
}

// window returns the batch of those with the latest limits that answers the most rows in time for its time, of those
// for which own tasks are given up fairly.
func (q *oracleQueue) window(now Time, own, of []oracleCandidate, most, grow int, several bool) (
	best oracleWindow, rate float64,
) {
	slices.SortStableFunc(of, byLimit)
	all, sure, fits := 0, 0, true
	for _, k := range of {
		if !k.joins || all+k.rows() <= grow {
			all = min(all+k.rows(), most)
			fits = fits && k.limit >= now.Add(q.high(all))
			if fits {
				sure = all
			}
		}
	}
	for n := max(sure, 1); n <= all; {
		w, inTime, takes, high := oracleWindow{}, 0.0, q.takes(n), q.high(n)
		w.line = now.Add(takes + (high-takes)/4)
		for _, k := range of {
			if w.rows == n || k.limit < now.Add(takes) {
				break
			}
			if w.rows+k.rows() > n && (k.joins || k.rows() <= n) || k.joins && w.rows+k.rows() > grow {
				continue
			}
			late := max(0, float64(now.Add(high)-k.limit)/float64(high-takes))
			rows := min(k.rows(), n-w.rows)
			inTime += float64(rows) * (1 - late*late/2) / float64(takes)
			w.rows, w.line, w.rank = w.rows+rows, min(w.line, k.limit), max(w.rank, k.t.rank)
		}
		unfair := slices.ContainsFunc(own, func(k oracleCandidate) bool {
			return k.t.limit < w.line && (k.t.rank < w.rank || several && now+k.t.limit-k.t.arrival < w.line)
		})
		if inTime > rate && !unfair {
			best, rate = w, inTime
		}
		if n == all {
			break
		}
		n = min(all, n+max(n/8, 1))
	}
	return best, rate
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

// fit returns how many rows from the head on, and of others, make a batch that surely meets all limits.
func (q *oracleQueue) fit(now Time, all []oracleCandidate, grow int) (rows int) {
	soonest := Never
	for i, t := range q.tasks {
		if i > 0 && i >= q.together() || rows == q.most() {
			break
		}
		soonest = min(soonest, t.limit)
		grown := min(rows+t.rows-t.next, q.most())
		if rows > 0 && soonest < now.Add(q.high(grown)) {
			return rows
		}
		rows = grown
	}
	slices.SortStableFunc(all, func(a, b oracleCandidate) int {
		return cmp.Or(cmp.Compare(b.strict, a.strict), cmp.Compare(a.rows(), b.rows()))
	})
	for _, k := range all {
		if k.joins && rows+k.rows() <= grow {
			if min(soonest, k.strict) < now.Add(q.high(rows+k.rows())) {
				break
			}
			rows += k.rows()
		}
	}
	return rows
}

// form takes at most that many rows from the queue for the next batch.
func (o *oracle) form(now Time, q *oracleQueue, most int, w oracleWindow) (gone []Handle, spans []oracleSpan) {
	if q.whole() {
		return nil, q.take(1<<30, spans)
	}
	most = q.policy(most)
	rows := 0
	behind, joined := q.tasks[0].rank != backgroundRank, false
	for n := 0; rows < most; n++ {
		if behind && o.beyond(q.flow) && n == 1 {
			if _, spans, rows = o.along(now, q, rows, most, spans, true, oracleWindow{}); rows == most {
				break
			}
		}
		if behind && !joined && (len(q.tasks) == 0 || q.tasks[0].alone || q.tasks[0].rank == backgroundRank) {
			joined = true
			if gone, spans, rows = o.along(now, q, rows, most, spans, false, w); rows == most {
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
	return gone, spans
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
