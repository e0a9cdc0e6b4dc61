package fairq

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
	"time"
)

// serve runs the queue for n turns with random costs whose estimates are wrong by up to half, and returns the largest
// weighted lead of one always-active flow over another, and the bound for it.
func serve(pick func(*Queue) Flow, weights []float64, n int) (lead, bound float64) {
	rng := rand.New(rand.NewPCG(3, 4))
	var q Queue
	for i, w := range weights {
		q.Set(Flow(i), w)
		q.Demand(Flow(i), 0)
	}
	service := make([]float64, len(weights))
	largest := make([]float64, len(weights))
	for range n {
		f := pick(&q)
		est := time.Duration(1 + rng.IntN(10_000_000))
		actual := est/2 + time.Duration(rng.Int64N(int64(est)))
		q.Charge(f, est)
		q.Correct(f, actual-est)
		service[f] += float64(actual) / weights[f]
		largest[f] = max(largest[f], float64(actual)/weights[f])
		for i := range weights {
			for j := range weights {
				lead = max(lead, service[i]-service[j])
				bound = max(bound, largest[i]+largest[j])
			}
		}
	}
	return lead, bound
}

func TestLagStaysWithinTheBound(t *testing.T) {
	sfq := func(q *Queue) Flow { f, _ := q.Behind(math.MaxInt64); return f }
	// 1 µs of slack for the rounding of tags to whole nanoseconds over the run.
	if lead, bound := serve(sfq, []float64{1, 2, 0.5, 8}, 50_000); lead > bound+1e3*50 {
		t.Errorf("a flow leads another by %.0f ns of weighted service, the bound is %.0f", lead, bound)
	}
	// The check must be able to fail: serving in turn, blind to cost and weight, exceeds the bound.
	turn := 0
	roundRobin := func(*Queue) Flow { turn++; return Flow(turn % 4) }
	if lead, bound := serve(roundRobin, []float64{1, 2, 0.5, 8}, 50_000); lead <= bound {
		t.Errorf("round robin stays within the bound (%.0f of %.0f): this test proves nothing", lead, bound)
	}
}

func TestIdlingEarnsNoCredit(t *testing.T) {
	var q Queue
	q.Set(0, 1)
	q.Set(1, 1)
	q.Demand(0, 0)
	for range 100 {
		q.Charge(0, time.Millisecond)
	}
	q.Demand(1, 0)
	first := 0
	for range 10 {
		f, _ := q.Behind(math.MaxInt64)
		if f == 1 {
			first++
		}
		q.Charge(f, time.Millisecond)
	}
	if first < 5 || first > 6 {
		t.Errorf("after idling, flow 1 got %d of 10 turns, want half", first)
	}
}

// TestRefundsAreNotLost charges one flow too much while another is served: the excess comes back to it.
// TestWhoIsNotServedLosesNothing: a flow that is served although it does not demand it may be behind by the latest
// charge of one that does, whether or not it demanded service for a moment, and whatever corrections came since.
func TestWhoIsNotServedLosesNothing(t *testing.T) {
	for _, moment := range []bool{false, true} {
		var q Queue
		q.Set(0, 1)
		q.Set(1, 2)
		q.Demand(0, 0)
		for range 10 {
			q.Charge(0, 6*time.Millisecond)
			q.Correct(0, time.Microsecond)
		}
		q.Charge(1, 4*time.Millisecond)
		if moment {
			q.Demand(1, 0)
			q.Rest(1)
		}
		q.Correct(0, time.Microsecond)
		q.Charge(1, 4*time.Millisecond)
		if lead, want := q.Lead(1), Tag(-2*time.Millisecond-time.Microsecond); lead != want {
			t.Errorf("demanded for a moment: %v; it leads by %v, want %v", moment, lead, want)
		}
	}
}

func TestRefundsAreNotLost(t *testing.T) {
	var q Queue
	for f := range Flow(2) {
		q.Set(f, 1)
		q.Demand(f, 0)
	}
	q.Charge(0, 10*time.Millisecond)
	for range 10 {
		q.Charge(1, time.Millisecond)
	}
	q.Charge(1, time.Millisecond) // virtual time is at 10 ms
	q.Correct(0, -9*time.Millisecond)
	if q.Start(0) != Tag(time.Millisecond) || q.Now() != Tag(10*time.Millisecond) {
		t.Errorf("start tag %d, virtual time %d; want 1 ms and 10 ms", q.Start(0), q.Now())
	}
	if f, _ := q.Behind(math.MaxInt64); f != 0 {
		t.Errorf("flow %d is next, want the one that was charged too much", f)
	}
}

// TestTagsBeginAnew: tags never overflow, and their order and distances stay as they are.
func TestTagsBeginAnew(t *testing.T) {
	var q Queue
	q.Set(0, MinWeight)
	q.Set(1, 1)
	q.Set(2, 1)
	q.Demand(0, 0)
	q.Demand(1, 0)
	const year = 365 * 24 * time.Hour
	for range 40 * 365 { // a batch that takes a day each time, for forty years
		f, _ := q.Behind(math.MaxInt64)
		before := q.Start(1) - q.Start(0)
		q.Charge(f, year/365)
		change := Tag(year / 365)
		if f == 0 {
			change *= -1000
		}
		if after := q.Start(1) - q.Start(0); after != before+change {
			t.Fatalf("charging flow %d moved the distance from %d to %d, want by %d", f, before, after, change)
		}
		if q.Start(0) < -mostTag || q.Start(0) > 2*mostTag {
			t.Fatalf("tag %d", q.Start(0))
		}
	}
	q.Demand(2, 0) // it rested for all that time, and is not owed it
	if f, _ := q.Behind(math.MaxInt64); q.Start(2) < q.Start(f) {
		t.Errorf("the flow that rested begins at %d, the others are at %d", q.Start(2), q.Start(f))
	}
}

// BenchmarkPick measures the cost of choosing a flow when all of them demand service: find the one that is due first,
// charge it, and let it demand its next piece of work, due later than that of most others.
func BenchmarkPick(b *testing.B) {
	for _, flows := range []int{10, 1000, 10_000, 100_000} {
		b.Run(fmt.Sprintf("flows=%d", flows), func(b *testing.B) {
			var q Queue
			rng := uint32(1)
			later := func() int64 {
				rng = rng*1664525 + 1013904223
				return int64(rng>>4) * int64(flows) / 100
			}
			for f := range Flow(flows) {
				q.Set(f, 1)
				q.Demand(f, later())
			}
			b.ReportAllocs()
			for due := int64(0); b.Loop(); due += 1e6 {
				f, _ := q.First()
				q.Charge(f, time.Millisecond)
				q.Demand(f, due+later())
			}
		})
	}
}
