package sharedsched

import (
	"cmp"
	"slices"
	"time"
)

// others returns the queues of other flows for the version and key of q that have foreground tasks, as of the last look
// at each.
func (o *oracle) others(q *oracleQueue) (all []*oracleQueue) {
	for _, other := range o.queues {
		if other != q && other.shape == q.shape && other.waits {
			all = append(all, other)
		}
	}
	return all
}

// mayGrow returns to how many rows others may fill a batch of the queue, 0 for none.
func (o *oracle) mayGrow(q *oracleQueue) int {
	if len(o.others(q)) == 0 {
		return 0
	}
	return q.most()
}

// mayJoin reports whether a flow is within its share; or whether both are beyond theirs, and nobody beyond his demands
// service, or the other is no further ahead of the one furthest behind than the batch takes.
func (o *oracle) mayJoin(q *oracleQueue, f *oracleFlow) bool {
	demand := slices.ContainsFunc(o.flows, func(f *oracleFlow) bool { return f.demands[foreground] })
	return !o.beyond(f) || o.beyond(q.flow) && (!demand || f.tag[foreground]-o.leastTag(foreground) <= int64(q.cost))
}

// joining returns the tasks of other flows that could join a batch of the queue.
func (o *oracle) joining(now Time, q *oracleQueue, grow int) (all []oracleCandidate) {
	if grow == 0 {
		return nil
	}
	for _, other := range o.others(q) {
		if !o.mayJoin(q, other.flow) {
			continue
		}
		for i, t := range other.tasks {
			if t.alone || t.rank == backgroundRank || t.rows-t.next > grow {
				break
			}
			k := oracleCandidate{t, t.limit, t.limit, true}
			// A task in front goes first, or is given up if that is fair.
			for j, front := range other.tasks[:i+1] {
				k.strict = min(k.strict, front.limit)
				if o.beyond(q.flow) && !o.beyond(other.flow) ||
					slices.ContainsFunc(other.tasks[:j], func(t *oracleTask) bool { return t.rank < front.rank }) {
					k.limit = min(k.limit, k.strict)
				}
				if j < i {
					k.limit = min(k.limit, now+front.limit-front.arrival)
				}
			}
			all = append(all, k)
		}
	}
	return all
}

// along takes tasks of others, or only of those within their shares, into a batch of the queue that has that many rows.
func (o *oracle) along(
	now Time, q *oracleQueue, rows, most int, spans []oracleSpan, within bool, w oracleWindow,
) (gone []Handle, _ []oracleSpan, _ int) {
	limit := min(most, o.mayGrow(q))
	if len(q.version.AllowedBatchSizes) > 0 {
		limit = min(limit, q.padded(rows))
	}
	end := now.Add(q.high(limit))
	if w.line > 0 {
		end = w.line
	}
	all := o.others(q)
	all = slices.DeleteFunc(all, func(other *oracleQueue) bool { // it may be empty by now
		return len(other.tasks) == 0 || other.tasks[0].rank == backgroundRank
	})
	slices.SortStableFunc(all, func(a, b *oracleQueue) int { return cmp.Compare(a.tasks[0].target, b.tasks[0].target) })
	for _, other := range all {
		if rows >= limit || !o.mayJoin(q, other.flow) || within && o.beyond(other.flow) {
			continue
		}
		other.setBack(now, o.low(other.flow))
		for i := 0; i < len(other.tasks); {
			t := other.tasks[i]
			left := t.rows - t.next
			if o.givesUp(now, q, t, w) {
				i++
				continue
			}
			if t.alone || t.rank == backgroundRank || t.limit < end || rows+left > limit {
				break
			}
			for ; i > 0; i-- {
				gone = append(gone, other.remove(0))
			}
			spans = other.take(left, spans)
			rows += left
			other.served = true
			o.joined = append(o.joined, other)
		}
	}
	o.joined = slices.Compact(o.joined)
	return gone, spans, rows
}

// parts yields the flows that rows of a batch are of, and their parts of a time.
func (m *match) parts(spans []oracleSpan, whole time.Duration, yield func(*oracleQueue, time.Duration)) {
	all := 0
	for _, s := range spans {
		all += s.rows
	}
	for i, rows := 0, 0; i < len(spans); {
		q, before := m.tasks[spans[i].task].queue, rows
		for ; i < len(spans) && m.tasks[spans[i].task].queue == q; i++ {
			rows += spans[i].rows
		}
		yield(q, whole*time.Duration(rows)/time.Duration(all)-whole*time.Duration(before)/time.Duration(all))
	}
}
