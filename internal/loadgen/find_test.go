package loadgen

import (
	"context"
	"math"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weftserve/weft/internal/config"
	"github.com/weftserve/weft/internal/race"
)

func TestSearch(t *testing.T) {
	for _, limit := range []float64{0.3, 1, 1.01, 7.7, 100} {
		runs := 0
		got, err := search(0.02, func(factor float64) (bool, error) {
			runs++
			return factor <= limit, nil
		})
		if err != nil || got > limit || got < limit/1.02 || runs > 20 {
			t.Errorf("limit %g: found %g in %d runs, %v", limit, got, runs, err)
		}
	}
	for name, met := range map[string]bool{"none": false, "all": true} {
		got, err := search(0.02, func(float64) (bool, error) { return met, nil })
		if want := map[bool]float64{false: 0, true: most}[met]; err != nil || got != want {
			t.Errorf("%s meet: found %g, %v; want %g", name, got, err, want)
		}
	}
}

// search100 searches on a server that answers a hundred requests a second.
func search100(ctx context.Context, objective Objective, streams ...Stream) (*Report, error) {
	server := newQueue(10 * time.Millisecond)
	b := benchOf(time.Second, 30*time.Second, server.predict, maxInFlight, streams...)
	b.o.Objective = objective
	return b.find(ctx)
}

var within200ms = Objective{Find: true, P99: config.Duration(200 * time.Millisecond), InTime: 0.99, Precision: 0.02}

func TestFind(t *testing.T) {
	for _, first := range []float64{500, 7}[:map[bool]int{false: 2, true: 1}[race.Enabled]] {
		synctest.Test(t, func(t *testing.T) {
			r, err := search100(t.Context(), within200ms, stream(func(s *Stream) { s.Rate, s.Arrivals = first, constant }))
			if err != nil {
				t.Fatal(err)
			}
			if got := r.Find.Rate; got > 101 || got < 97.5 || r.Streams[0].Rate != got {
				t.Errorf("from %g on: found %g a second, with the report of %g; want 100", first, got, r.Streams[0].Rate)
			}
			for _, s := range r.Find.Steps {
				if s.Met && s.Rate > 101 || !s.Met && s.Rate < 100 {
					t.Errorf("from %g on: %v", first, &s)
				}
			}
		})
	}
}

// TestFindPoisson: arrivals at random wait. An M/D/1 queue has a p99 of 20 services at a load of about 0.9.
func TestFindPoisson(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, err := search100(t.Context(), within200ms, stream(func(s *Stream) { s.Rate = 10 }))
		if err != nil {
			t.Fatal(err)
		}
		if r.Find.Rate < 80 || r.Find.Rate > 97 {
			t.Errorf("found %g a second, want about 90", r.Find.Rate)
		}
	})
}

// TestFindByDeadline has no objective of latency: the part in time decides.
func TestFindByDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		of := Objective{Find: true, InTime: 0.9, Precision: 0.02}
		r, err := search100(t.Context(), of, stream(func(s *Stream) {
			s.Rate, s.Arrivals, s.Deadline = 10, constant, config.Duration(500*time.Millisecond)
		}))
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range r.Find.Steps {
			if s.Met != (s.InTime >= 0.9) {
				t.Errorf("%v", &s)
			}
		}
		if r.Find.Rate < 98 || r.Find.Rate > 115 {
			t.Errorf("found %g a second, want little more than 100", r.Find.Rate)
		}
	})
}

// TestFindOfSeveral: the rates grow alike, beside callers that stay.
func TestFindOfSeveral(t *testing.T) {
	race.Skip(t, "TestFind has the same goroutines")
	synctest.Test(t, func(t *testing.T) {
		named := func(name string, rate float64, callers int) Stream {
			return stream(func(s *Stream) { s.Name, s.Rate, s.Callers, s.Arrivals = name, rate, callers, constant })
		}
		r, err := search100(t.Context(), within200ms, named("a", 3, 0), named("b", 1, 0), named("c", 0, 2))
		if err != nil {
			t.Fatal(err)
		}
		a, b := r.Streams[0].Rate, r.Streams[1].Rate
		if math.Abs(a-3*b) > 1e-6 || math.Abs(r.Find.Rate-a-b) > 1e-6 || r.Find.Rate < 50 {
			t.Errorf("found %g: %g and %g", r.Find.Rate, a, b)
		}
	})
}

func TestFindNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		of := Objective{Find: true, P99: config.Duration(time.Microsecond), Precision: 0.1}
		r, err := search100(t.Context(), of, stream(func(s *Stream) { s.Rate, s.Arrivals = 100, constant }))
		if err == nil || !strings.Contains(err.Error(), "requests a second on meets the objective") || r == nil ||
			r.Find.Rate != 0 {
			t.Errorf("%+v, %v; want the report of the last step, and an error", r, err)
		}
	})
}

func TestFindInterrupted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 80*time.Second)
		defer cancel()
		r, err := search100(ctx, within200ms, stream(func(s *Stream) { s.Rate, s.Arrivals = 10, constant }))
		if err != nil || !r.Interrupted || len(r.Find.Steps) != 2 || r.Find.Rate != 20 || r.Streams[0].Rate != 20 {
			t.Errorf("%+v, %v; want the report of the second of two steps", r, err)
		}
	})
}
