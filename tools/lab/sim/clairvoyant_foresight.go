package sim

import (
	"cmp"
	"slices"
	"sort"
)

// foresight is all that will happen.
type foresight struct {
	lines    []foreLine
	arrivals []foreArrival // of all requests
	end      Time          // no request can be on time after it
	shortest Time          // the cheapest execution
}

// foreLine is all requests of a model and key, in order of arrival.
type foreLine struct {
	arrival, deadline []Time
	alone             []Time // time that each takes by itself
	before            []int  // rows of all requests before the i-th; one more at the end
	cost              []Time // by rows, at least; padded up where that is cheaper
	max               int    // rows in a batch
	patience          Time   // the longest time from arrival to deadline
	target            int    // rows in a batch that takes half of the time a request has
	narrow            bool   // every request has one row
}

type foreArrival struct {
	at     Time
	latest Time // when it has to start at the latest if it runs alone
	line   int32
}

// newForesight leaves out requests that cannot be answered in time.
func newForesight(models []Model, reqs []Request) *foresight {
	sorted := slices.Clone(reqs)
	slices.SortStableFunc(sorted, func(a, b Request) int { return cmp.Compare(a.Arrival, b.Arrival) })
	f := &foresight{shortest: Never}
	type key struct{ model, key int }
	index := map[key]int{}
	for i := range sorted {
		r := &sorted[i]
		m := &models[r.Model]
		k := key{r.Model, r.Key}
		i, ok := index[k]
		if !ok {
			i = len(f.lines)
			index[k] = i
			f.lines = append(f.lines, foreLine{max: m.MaxBatch, cost: leastCosts(m), before: []int{0}, narrow: true})
		}
		l := &f.lines[i]
		alone := Time(m.Cost(r.Rows))
		if r.Rows <= l.max {
			alone = l.cost[r.Rows]
		}
		if r.Deadline-r.Arrival < alone {
			continue
		}
		l.arrival, l.deadline, l.alone = append(l.arrival, r.Arrival), append(l.deadline, r.Deadline),
			append(l.alone, alone)
		l.before = append(l.before, l.before[len(l.before)-1]+r.Rows)
		l.narrow = l.narrow && r.Rows == 1
		l.patience = max(l.patience, r.Deadline-r.Arrival)
		l.target = max(1, l.within(l.patience/2, l.max))
		f.arrivals = append(f.arrivals, foreArrival{r.Arrival, r.Deadline - alone, int32(i)})
		f.end = max(f.end, r.Deadline)
		f.shortest = min(f.shortest, alone)
	}
	return f
}

// leastCosts returns the times that executions of 0, 1, ... MaxBatch rows take if padding is free to use.
func leastCosts(m *Model) []Time {
	cost := make([]Time, m.MaxBatch+1)
	for b := m.MaxBatch; b > 0; b-- {
		cost[b] = Time(m.Cost(b))
		if b < m.MaxBatch {
			cost[b] = min(cost[b], cost[b+1])
		}
	}
	return cost
}

// arrived returns how many requests of the line have arrived by a time, given how many had before.
func (l *foreLine) arrived(now Time, before int) int {
	for before < len(l.arrival) && l.arrival[before] <= now {
		before++
	}
	return before
}

// takes returns how many requests from the i-th of n on a batch of at most that many rows takes, at least one, and its
// cost.
func (l *foreLine) takes(i, n, rows int) (count int, cost Time) {
	if l.narrow {
		count = min(max(rows, 1), n-i)
		return count, l.cost[count]
	}
	limit := l.before[i] + rows
	count = max(1, sort.Search(n-i, func(k int) bool { return l.before[i+k+1] > limit }))
	if count == 1 {
		return 1, l.alone[i]
	}
	return count, l.cost[l.before[i+count]-l.before[i]]
}

// within returns the most rows, at most limit, that can be executed within a time; it may be 0.
func (l *foreLine) within(time Time, limit int) int {
	limit = min(limit, l.max)
	if l.cost[limit] <= time {
		return limit
	}
	return sort.Search(limit, func(b int) bool { return l.cost[b+1] > time })
}

// onTime counts the requests from i to j that a batch which ends at a time answers on time.
func (l *foreLine) onTime(i, j int, end Time) int {
	n := 0
	for ; i < j; i++ {
		if l.deadline[i] >= end {
			n++
		}
	}
	return n
}
