package owntime

import (
	"math/rand/v2"
	"testing"
	"time"
)

// TestCurve compares a curve with the list of all that was lost: exactly for what is recent, roughly for what is older.
func TestCurve(t *testing.T) {
	type loss struct {
		from, to time.Time
		lost     time.Duration
	}
	for seed := range uint64(50) {
		rng := rand.New(rand.NewPCG(seed, 1))
		begin := time.Now()
		now := begin
		var c curve
		var all []loss
		plain := func(then time.Time) (lost time.Duration) {
			for _, l := range all {
				part := float64(then.Sub(l.from)) / float64(l.to.Sub(l.from))
				lost += time.Duration(min(max(part, 0), 1) * float64(l.lost))
			}
			return lost
		}
		for range rng.IntN(3 * points) {
			from := now
			now = now.Add(time.Duration(1 + rng.IntN(int(time.Second))))
			if rng.IntN(3) > 0 {
				lost := time.Duration(rng.Int64N(int64(now.Sub(from))))
				c.add(from, now, lost)
				all = append(all, loss{from, now, lost})
			}
		}
		span := now.Sub(begin)
		for range 50 {
			then := begin.Add(time.Duration(rng.Int64N(int64(span) + 1)))
			got, want, near := c.at(then), plain(then), time.Microsecond
			if now.Sub(then) > 100*time.Second {
				near = span / 20
			}
			if got < want-near || got > want+near {
				t.Fatalf("seed %d: %v before the end %v was lost, want %v", seed, now.Sub(then), got, want)
			}
		}
		if len(c) > points {
			t.Errorf("seed %d: %d points", seed, len(c))
		}
	}
}
