package sim

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/weftserve/weft/internal/race"
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

// tiny draws an instance small enough for exhaustive. In a plain one, deadlines are in order of arrival within a model,
// and every request has one row.
func tiny(rng *rand.Rand, plain bool) ([]Model, []Request) {
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
		if !plain {
			r.Key, r.Rows = rng.IntN(2), 1+rng.IntN(3)
			leaveOut := rng.IntN(8) == 0
			r.Deadline = r.Arrival + Time(rng.IntN(60))*Time(time.Millisecond)
			if leaveOut {
				continue
			}
		}
		reqs = append(reqs, r)
	}
	return models, reqs
}

// TestClairvoyantAgainstExhaustiveSearch: no search is above the optimum, and the beam is never worse than the rules
// that it starts from. It has to be close, too.
func TestClairvoyantAgainstExhaustiveSearch(t *testing.T) {
	for plain, least := range map[bool]float64{true: 0.98, false: 0.95} {
		rng := rand.New(rand.NewPCG(1, 2))
		offered, optima, beams, rules := 0, 0, 0, 0
		instances := 400
		if testing.Short() || race.Enabled {
			instances = 40 // one goroutine searches
		}
		for i := range instances {
			models, reqs := tiny(rng, plain)
			optimum, beam := exhaustive(models, reqs), Clairvoyant(models, reqs, 0)
			_, n := newForesight(models, reqs).bestRule()
			rule := int(n)
			if optimum < beam || beam < rule {
				t.Fatalf("instance %d, plain %v: optimum %d, beam %d, rule %d", i, plain, optimum, beam, rule)
			}
			offered, optima, beams, rules = offered+len(reqs), optima+optimum, beams+beam, rules+rule
		}
		t.Logf("plain %v: of %d requests: optimum %d, beam %d, rules %d", plain, offered, optima, beams, rules)
		if float64(beams) < least*float64(optima) {
			t.Errorf("plain %v: of %d requests: optimum %d, beam %d", plain, offered, optima, beams)
		}
	}
}

// TestBaselinesAgainstClairvoyant: a policy that does not know the future is below the beam.
func TestBaselinesAgainstClairvoyant(t *testing.T) {
	skipUnderRace(t)
	for _, w := range Suite() {
		requests := w.Requests(1.5, time.Second/2, 1)
		beam := Clairvoyant(w.Models, requests, 16)
		for _, p := range Baselines() {
			if p.Lanes != nil {
				continue // overlapping batches are another device
			}
			r, err := Run(&Setup{Models: w.Models}, append([]Request(nil), requests...), p.New)
			if err != nil {
				t.Fatal(err)
			}
			if total := r.Total(); total.Fates[OnTime] > beam {
				t.Errorf("%s: %s has %d on time of %d, the beam %d", w.Name, p.Name, total.Fates[OnTime], total.Offered, beam)
			}
		}
	}
}
