package sim

import (
	"math"
	"sort"
)

// saturating is the rate of a model that saturates the device.
var saturating = math.Inf(1)

// window is a batch that a line could start now: requests behind the first skip requests, which it would give up.
type window struct {
	line *line
	skip int
	rows int
	due  Time // the deadline of its first request, which is the earliest of all
	last Time // when it has to start at the latest
}

func (l *lines) window(q *line, skip, rows int) window {
	head := q.at(skip)
	rows = max(rows, head.Rows)
	return window{line: q, skip: skip, rows: rows, due: head.Deadline, last: head.Deadline - l.needs(q.model, rows)}
}

// fromHead returns the largest batch that serves the head of q, which has to be there, in time.
func (l *lines) fromHead(now Time, q *line) window {
	return l.window(q, 0, l.largest(q.model, q.rows, q.head().Deadline-now))
}

// sliding gives up heads that stand in the way of a batch of target rows: it drops from the front until the rest, up to
// the target, can be done in time (suffix); takes back dropped ones that are in time with that many rows (prefix); and
// goes on beyond the target as long as its first request stays in time (free lunch). q has to be non-empty, and its
// head not hopeless.
//
// Where requests have several rows, the rows that would be taken are counted as if requests could be cut to fit the
// target.
func (l *lines) sliding(now Time, q *line, target int) window {
	skip, rows := l.suffix(now, q, target)
	limit := now + l.needs(q.model, rows)
	left := q.rows
	for i := range skip {
		if q.at(i).Deadline >= limit {
			skip = i
			break
		}
		left -= q.at(i).Rows
	}
	return l.window(q, skip, max(rows, l.largest(q.model, left, q.at(skip).Deadline-now)))
}

// suffix returns how many requests to drop from the front of q so that the rest, but at most target rows, is in time,
// and how many rows those are. The last request is never dropped.
func (l *lines) suffix(now Time, q *line, target int) (skip, rows int) {
	left := q.rows
	for {
		r := q.at(skip)
		rows = max(min(target, left), r.Rows)
		if skip == q.n-1 || r.Deadline >= now+l.needs(q.model, rows) {
			return skip, rows
		}
		left -= r.Rows
		skip++
	}
}

// target returns the batch size of Nexus and Symphony for one device: the largest with l(b) + max(l(b), b/rate) <= SLO.
// That is 2 l(b) <= SLO where the model alone would saturate the device, since a request may just miss a batch, and the
// time in which such a batch gathers plus its execution where it would not.
func (l *lines) target(model int, rowsPerSecond float64) int {
	slo, need := float64(l.env.Models[model].SLO), l.need[model]
	return 1 + sort.Search(len(need)-2, func(i int) bool {
		cost, gather := float64(need[i+2]), float64(i+2)/rowsPerSecond*1e9
		return cost+max(cost, gather) > slo
	})
}

// saturatedWindow is sliding towards the size for a model that saturates the device.
func (l *lines) saturatedWindow(now Time, q *line) window {
	return l.sliding(now, q, l.target(q.model, saturating))
}
