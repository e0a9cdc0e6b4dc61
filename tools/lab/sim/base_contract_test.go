package sim

import (
	"math/rand/v2"
	"strings"
	"testing"
	"time"
)

// TestBaselinesKeepTheContract plays requests of several rows, keys and deadlines of their own, in overload. The engine
// finds batches that are not allowed and wake-ups in the past.
func TestBaselinesKeepTheContract(t *testing.T) {
	models := heterogeneous(8, 5)
	for i := range models {
		models[i].Keys = 1 + i%3
		models[i].MaxBatch = []int{1, 5, 8, 13}[i%4]
	}
	toCapacity(models)
	rng := rand.New(rand.NewPCG(7, 7))
	var requests []Request
	for at := Time(0); at < Time(2*time.Second); at += Time(rng.ExpFloat64() * 2e6) {
		m := rng.IntN(len(models))
		r := Request{Model: m, Key: rng.IntN(models[m].Keys), Rows: 1 + rng.IntN(models[m].MaxBatch), Arrival: at}
		r.Deadline = at.Add(time.Duration(rng.Float64() * float64(2*models[m].SLO)))
		requests = append(requests, r)
	}
	for _, p := range Baselines() {
		t.Run(p.Name, func(t *testing.T) {
			requests := append([]Request(nil), requests...)
			r, err := Run(&Setup{
				Models: models, Device: TypicalDevice, Lanes: p.lanes(len(models)), Overlap: p.Overlap,
				Seed: 1,
			}, requests, p.New)
			if err != nil {
				t.Fatal(err)
			}
			total := r.Total()
			if total.Offered != len(requests) || total.Fates[OnTime]+total.missed() != len(requests) {
				t.Errorf("of %d requests these ended: %+v", len(requests), total)
			}
			if total.Fates[OnTime] == 0 {
				t.Error("nothing was on time")
			}
			if waits := strings.Contains(p.Name, "ms") && !strings.Contains(p.Name, "-0ms"); waits != (r.Idle > 0) {
				t.Errorf("the device idled %v while requests waited", r.Idle)
			}
		})
	}
}

// TestBaselinesDoNotAllocate shows that a request costs a baseline no memory once its queues have grown.
func TestBaselinesDoNotAllocate(t *testing.T) {
	models := heterogeneous(8, 5)
	toCapacity(models)
	for _, p := range Baselines() {
		env := &Env{Models: models, Lanes: p.lanes(len(models)), drop: func(Time, *Request, Fate) {}}
		policy := p.New(env)
		requests := make([]Request, 64)
		now := Time(0)
		turn := func() {
			for i := range requests {
				now += Time(time.Millisecond)
				requests[i] = Request{
					Model: i % len(models), Rows: 1, Arrival: now,
					Deadline: now.Add(models[i%len(models)].SLO),
				}
				policy.Arrive(now, &requests[i])
				if b := policy.Next(now, i%env.Lanes); b != nil {
					policy.Done(now, b, time.Millisecond)
				}
			}
			now += Time(time.Second) // the rest expires
			for i := range 1000 {
				b := policy.Next(now, i%env.Lanes)
				if b != nil {
					policy.Done(now, b, time.Millisecond)
				}
			}
		}
		for range 20 {
			turn()
		}
		if n := testing.AllocsPerRun(20, turn); n > 0 {
			t.Errorf("%s allocates %v times in 64 requests", p.Name, n)
		}
	}
}

// TestSliding compares the search for a window with trying all that drop as few heads as the rule allows.
func TestSliding(t *testing.T) {
	env := &Env{Models: []Model{sized(linear("a", 9, 1, 100, 1), 12)}, Lanes: 1}
	l := newLines(env)
	rng := rand.New(rand.NewPCG(3, 3))
	for range 2000 {
		q := &l.all[0]
		for q.n > 0 {
			q.pop()
		}
		for range 1 + rng.IntN(20) {
			q.insert(&Request{Rows: 1, Deadline: l.needs(0, 1) + Time(rng.IntN(15e6))})
		}
		target := 1 + rng.IntN(12)
		got := l.sliding(0, q, target)

		inTime := func(skip, rows int) bool { return skip+rows <= q.n && q.at(skip).Deadline >= l.needs(0, rows) }
		var want window
		for skip := range q.n { // suffix
			if rows := min(target, q.n-skip); inTime(skip, rows) {
				want = window{skip: skip, rows: rows}
				break
			}
		}
		for skip := want.skip - 1; skip >= 0 && inTime(skip, want.rows); skip-- { // prefix
			want.skip = skip
		}
		for want.rows < 12 && inTime(want.skip, want.rows+1) { // free lunch
			want.rows++
		}
		if got.skip != want.skip || got.rows != want.rows {
			t.Fatalf("of %d with target %d: got %d after %d, want %d after %d", q.n, target, got.rows, got.skip,
				want.rows, want.skip)
		}
		if head := q.at(got.skip); got.due != head.Deadline || got.last != head.Deadline-l.needs(0, got.rows) {
			t.Fatalf("due %v, last %v for a head due at %v", got.due, got.last, head.Deadline)
		}
	}
}
