package sim

import (
	"cmp"
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

// exhaustive returns the optimum by trying everything: at each moment that a batch can end or a request arrive, every
// set of waiting requests that makes a batch, padded as is cheapest, and waiting for the next arrival. Starting in
// between gains nothing.
func exhaustive(models []Model, reqs []Request) int {
	type moment struct {
		now  Time
		left uint
	}
	known := map[moment]int{}
	var best func(now Time, left uint) int
	best = func(now Time, left uint) int {
		at := moment{now, left}
		if n, ok := known[at]; ok {
			return n
		}
		most, next := 0, Never
		for i, r := range reqs {
			if left&(1<<i) != 0 && r.Arrival > now {
				next = min(next, r.Arrival)
			}
		}
		if next < Never {
			most = best(next, left)
		}
		for set := left; set > 0; set = (set - 1) & left {
			if cost, ok := batchCost(models, reqs, set, now); ok {
				end := now + cost
				n := 0
				for i, r := range reqs {
					if set&(1<<i) != 0 && r.Deadline >= end {
						n++
					}
				}
				if n > 0 {
					most = max(most, n+best(end, left&^set))
				}
			}
		}
		known[at] = most
		return most
	}
	return best(0, 1<<len(reqs)-1)
}

// batchCost returns the least that a set of requests costs as a batch, or false if it cannot be one now.
func batchCost(models []Model, reqs []Request, set uint, now Time) (Time, bool) {
	rows, count := 0, 0
	var first *Request
	for i := range reqs {
		r := &reqs[i]
		if set&(1<<i) == 0 {
			continue
		}
		if first == nil {
			first = r
		}
		if r.Arrival > now || r.Model != first.Model || r.Key != first.Key {
			return 0, false
		}
		rows += r.Rows
		count++
	}
	m := &models[first.Model]
	if count > 1 && rows > m.MaxBatch {
		return 0, false
	}
	least := Time(m.Cost(rows))
	for b := rows; b <= m.MaxBatch; b++ {
		least = min(least, Time(m.Cost(b)))
	}
	return least, true
}

// tiny draws an instance small enough for exhaustive.
func tiny(rng *rand.Rand) ([]Model, []Request) {
	models := make([]Model, 1+rng.IntN(3))
	for i := range models {
		m := linear("m", 1+9*rng.Float64(), 3*rng.Float64(), 10+40*rng.Float64(), 1)
		m.MaxBatch = 1 + rng.IntN(4)
		if rng.IntN(3) == 0 { // uneven steps, sometimes dearer for fewer rows
			for range m.MaxBatch {
				m.Steps = append(m.Steps, time.Duration(1+rng.IntN(12))*time.Millisecond)
			}
		}
		models[i] = m
	}
	var reqs []Request
	for range 4 + rng.IntN(6) {
		r := Request{Model: rng.IntN(len(models)), Rows: 1, Arrival: Time(rng.IntN(15)) * Time(time.Millisecond)}
		r.Deadline = r.Arrival.Add(models[r.Model].SLO)
		reqs = append(reqs, r)
	}
	return models, reqs
}

// TestBaselinesAgainstExhaustiveSearch: no policy is above the optimum, and all together come near to it.
func TestBaselinesAgainstExhaustiveSearch(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	optima, best := 0, 0
	for i := range 60 {
		models, requests := tiny(rng)
		slices.SortStableFunc(requests, func(a, b Request) int { return cmp.Compare(a.Arrival, b.Arrival) })
		optimum, most := exhaustive(models, requests), 0
		for _, p := range Baselines() {
			if p.Lanes != nil {
				continue // overlapping batches are another device
			}
			r, err := Run(&Setup{Models: models}, slices.Clone(requests), p.New)
			if err != nil {
				t.Fatal(err)
			}
			onTime := r.Total().Fates[OnTime]
			if most = max(most, onTime); onTime > optimum {
				t.Errorf("instance %d: %s has %d on time of %d, the optimum is %d", i, p.Name, onTime, len(requests), optimum)
			}
		}
		optima, best = optima+optimum, best+most
	}
	t.Logf("optimum %d, the best of the policies %d", optima, best)
	if float64(best) < 0.9*float64(optima) {
		t.Errorf("the optimum is %d, and the best of the policies %d", optima, best)
	}
}
