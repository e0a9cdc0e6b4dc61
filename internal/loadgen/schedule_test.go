package loadgen

import (
	"math"
	"testing"
	"time"
)

// stream returns the stream that the flags give, changed.
func stream(change func(*Stream)) Stream {
	var s Stream
	s.SetDefaults()
	s.Name, s.Model = "policy", "policy"
	change(&s)
	return s
}

func scheduleOf(t *testing.T, s Stream, span time.Duration) []time.Duration {
	t.Helper()
	due, err := s.schedule(span)
	if err != nil {
		t.Fatal(err)
	}
	return due
}

func TestSchedule(t *testing.T) {
	const rate, span = 50, 2000 * time.Second
	for _, tt := range []struct {
		arrivals Arrivals
		cv, want float64
	}{{poisson, 0, 1}, {gamma, 0.5, 0.5}, {gamma, 3, 3}, {constant, 0, 0}} {
		s := stream(func(s *Stream) { s.Rate, s.Arrivals, s.CV, s.Seed = rate, tt.arrivals, tt.cv, 7 })
		due := scheduleOf(t, s, span)
		var sum, squares float64
		for i := 1; i < len(due); i++ {
			gap := (due[i] - due[i-1]).Seconds()
			sum, squares = sum+gap, squares+gap*gap
		}
		n := float64(len(due) - 1)
		mean := sum / n
		cv := math.Sqrt(max(squares/n-mean*mean, 0)) / mean
		if math.Abs(mean*rate-1) > 0.02*max(tt.want, 1) || math.Abs(cv-tt.want) > 0.05 {
			t.Errorf("%s of CV %g: mean gap %.3g of 1/rate, CV %.3g; want 1, %g", tt.arrivals, tt.cv, mean*rate, cv, tt.want)
		}
		if end := due[len(due)-1]; end >= span {
			t.Errorf("%s: the last request is due at %v, after the end", tt.arrivals, end)
		}
	}
}

func TestScheduleBySeed(t *testing.T) {
	of := func(seed uint64) []time.Duration {
		return scheduleOf(t, stream(func(s *Stream) { s.Rate, s.Seed = 100, seed }), 10*time.Second)
	}
	a, again, b := of(1), of(1), of(2)
	if len(a) != len(again) || a[17] != again[17] {
		t.Error("one seed gave two schedules")
	}
	if a[17] == b[17] {
		t.Error("two seeds gave one schedule")
	}
}
