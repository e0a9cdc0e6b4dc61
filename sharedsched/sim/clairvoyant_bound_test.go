package sim

import (
	"math"
	"math/rand/v2"
	"testing"
)

// TestRooms compares what rooms accept with the work that a preemptive machine can do, found by serving what is due earliest in
// each slot.
func TestRooms(t *testing.T) {
	type job struct {
		from, to int
		work     float64
	}
	const slot = 10.0
	most := func(jobs []job, slots int) float64 {
		left := make([]float64, len(jobs))
		for i, j := range jobs {
			left[i] = j.work
		}
		sum := 0.0
		for s := range slots {
			for room := slot; room > 0; {
				next := -1
				for i, j := range jobs {
					if j.from <= s && s < j.to && left[i] > 0 && (next < 0 || j.to < jobs[next].to) {
						next = i
					}
				}
				if next < 0 {
					break
				}
				done := min(room, left[next])
				left[next] -= done
				room -= done
				sum += done
			}
		}
		return sum
	}
	rng := rand.New(rand.NewPCG(4, 4))
	for range 300 {
		slots := 1 + rng.IntN(12)
		r := newRooms(slots, slot)
		var accepted []job
		for range 25 {
			j := job{from: rng.IntN(slots), work: float64(1 + rng.IntN(20))}
			j.to = j.from + 1 + rng.IntN(slots-j.from)
			want := most(append(accepted, j), slots) - most(accepted, slots)
			got := r.take(j.from, j.to, j.work)
			if math.Abs(got-want) > 1e-9 {
				t.Fatalf("beside %v room for %v of %v, want %v", accepted, got, j, want)
			}
			j.work = got
			accepted = append(accepted, j)
		}
	}
}
