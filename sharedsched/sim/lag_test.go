package sim

import (
	"testing"
	"time"
)

func TestLag(t *testing.T) {
	l := newLag([]Model{{}, {Weight: 2}, {}})
	at := func(step string, want time.Duration) {
		t.Helper()
		if l.worst != want {
			t.Errorf("%s: lag %v, want %v", step, l.worst, want)
		}
	}
	for range 3 {
		l.arrive(0)
	}
	l.serve(0, 50, 1)
	at("nobody else waits", 0)
	for range 9 {
		l.arrive(1)
	}
	l.serve(0, 10, 1)
	at("0 got 10, 1 nothing", 10)
	l.serve(1, 30, 1)
	at("1 got 30 of weight 2: it leads by 5, 0 led by 10 before", 15)
	l.serve(0, 7, 1)
	at("the batch that empties a queue counts as well", 15)
	l.serve(1, 100, 1)
	at("0 no longer waits", 15)
	l.arrive(0)
	l.serve(0, 12, 1)
	at("0 came back: what 1 got meanwhile does not count", 15)
	l.leave(1, 6)
	l.arrive(2)
	l.serve(1, 1000, 1)
	at("1 has left, but for the one that is served", 500)
}

func TestLagForgetsEitherSide(t *testing.T) {
	for gone := range 2 {
		l := newLag(make([]Model, 2))
		stays := 1 - gone
		for range 9 {
			l.arrive(stays)
		}
		l.arrive(gone)
		l.serve(gone, 10, 1) // the last of its requests
		l.serve(stays, 1000, 1)
		l.arrive(gone)
		l.serve(gone, 20, 1)
		if l.worst != 20 {
			t.Errorf("lag %v, want 20: nobody waited beside flow %d when it got 1000", l.worst, stays)
		}
	}
}
