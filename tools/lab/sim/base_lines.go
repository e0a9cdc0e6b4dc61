package sim

import (
	"sort"
	"time"
)

// margin is the share of a batch's profile that baselines which predict its end add to the profile. It covers the
// simulated device's noise.
const margin = 0.05

// lines has the parts that the baselines have in common: a line for each model and key, profiles, and batches to use
// again. It is the part of a Policy that does not decide.
type lines struct {
	env   *Env
	all   []line
	first []int    // by model: where in all its lines begin; one more at the end
	need  [][]Time // by model and rows: the profile with margin
	spare []*Batch
}

func newLines(env *Env) lines {
	l := lines{env: env, first: []int{0}}
	for m := range env.Models {
		model := &env.Models[m]
		for range max(model.Keys, 1) {
			l.all = append(l.all, line{model: m, index: len(l.all)})
		}
		l.first = append(l.first, len(l.all))
		need := make([]Time, model.MaxBatch+1)
		for b := 1; b <= model.MaxBatch; b++ {
			// A larger batch never counts as cheaper, even where the measured steps say so: the searches rely on it.
			need[b] = max(need[b-1], padded(env.Profile(m, b)))
		}
		l.need = append(l.need, need)
	}
	return l
}

func padded(d time.Duration) Time { return Time(float64(d) * (1 + margin)) }

// index returns the line in which r waits.
func (l *lines) index(r *Request) int { return l.first[r.Model] + r.Key }

// of returns the lines of a model, by key.
func (l *lines) of(model int) []line { return l.all[l.first[model]:l.first[model+1]] }

// Arrive queues r by deadline.
func (l *lines) Arrive(_ Time, r *Request) { l.all[l.index(r)].insert(r) }

// Done takes the batch back.
func (l *lines) Done(_ Time, b *Batch, _ time.Duration) { l.spare = append(l.spare, b) }

// Wake is for policies that wait for events only.
func (l *lines) Wake() Time { return Never }

// needs returns the time to allow for a batch of that many rows.
func (l *lines) needs(model, rows int) Time {
	if need := l.need[model]; rows < len(need) {
		return need[rows]
	}
	return padded(l.env.Profile(model, rows)) // a single request larger than MaxBatch
}

// largest returns how many rows, at most limit and MaxBatch, can be executed within the time. It may be none.
func (l *lines) largest(model, limit int, within Time) int {
	need := l.need[model]
	limit = min(limit, len(need)-1)
	if need[limit] <= within {
		return limit
	}
	return sort.Search(limit, func(b int) bool { return need[b+1] > within })
}

// expire gives up the requests at the front of q that would be late even if they ran alone now.
func (l *lines) expire(now Time, q *line) {
	for q.n > 0 && q.head().Deadline < now+l.needs(q.model, q.head().Rows) {
		l.env.Drop(now, q.pop(), Dropped)
	}
}

// take gives up the first skip requests of q and makes a batch of those behind them: at most that many rows, at least
// one request.
func (l *lines) take(now Time, q *line, skip, rows int) *Batch {
	for range skip {
		l.env.Drop(now, q.pop(), Dropped)
	}
	var b *Batch
	if n := len(l.spare); n > 0 {
		b, l.spare = l.spare[n-1], l.spare[:n-1]
	} else {
		b = &Batch{}
	}
	count, rows := q.fill(0, rows)
	*b = Batch{Model: q.model, Requests: b.Requests[:0], Rows: rows, Size: rows}
	for range count {
		b.Requests = append(b.Requests, q.pop())
	}
	return b
}

// pick returns the batch that a line could start now which comes before all others, as form forms them; nil if nothing
// waits. Requests that cannot be on time any more are given up. Equals are decided in favour of the first line.
func (l *lines) pick(now Time, form func(*line) window, before func(a, b window) bool) *Batch {
	var best window
	for i := range l.all {
		q := &l.all[i]
		l.expire(now, q)
		if q.n == 0 {
			continue
		}
		if w := form(q); best.line == nil || before(w, best) {
			best = w
		}
	}
	if best.line == nil {
		return nil
	}
	return l.take(now, best.line, best.skip, best.rows)
}
