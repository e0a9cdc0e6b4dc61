package rollout

import (
	"math"
	"math/rand/v2"
	"testing"
)

func divided(parts map[float64][2]int) *division {
	var d division
	for part, n := range parts {
		for side := range n {
			for range n[side] {
				d.add(side, part)
			}
		}
	}
	return &d
}

func TestSplit(t *testing.T) {
	// 60 and 40 of a hundred where 50 and 50 are expected: 100/50 + 100/50 = 4, p 0.0455 (tables of chi-square).
	s := divided(map[float64][2]int{0.5: {60, 40}}).split()
	if s.Expected != 50 || math.Abs(*s.ChiSquare-4) > 1e-9 || math.Abs(*s.PValue-0.0455) > 1e-4 || s.Mismatch {
		t.Errorf("%+v: %v, %v", s, *s.ChiSquare, *s.PValue)
	}
	for _, few := range []map[float64][2]int{nil, {0.01: {400, 4}}, {0.5: {0, 9}}} {
		if s := divided(few).split(); s.ChiSquare != nil || s.PValue != nil || s.Mismatch {
			t.Errorf("%+v", s)
		}
	}
	// Stages are added up: neither by itself is off by enough.
	s = divided(map[float64][2]int{0.1: {945, 75}, 0.5: {540, 460}}).split()
	if !s.Mismatch || s.Candidate != 535 || s.Baseline != 1485 {
		t.Errorf("%+v %v", s, *s.PValue)
	}
}

// TestSplitIsSeldomSuspicious of fair ones, and nearly always of one in which a fifth of the candidate's are missing.
func TestSplitIsSeldomSuspicious(t *testing.T) {
	fair, unfair := 0, 0
	for seed := range uint64(1000) {
		r := rand.New(rand.NewPCG(seed, 3))
		draw := func(lost float64) Split {
			var d division
			for _, part := range []float64{0.01, 0.1, 0.5} {
				for range 2000 {
					switch {
					case r.Float64() >= part:
						d.add(baseline, part)
					case r.Float64() >= lost:
						d.add(candidate, part)
					}
				}
			}
			return d.split()
		}
		if draw(0).Mismatch {
			fair++
		}
		if draw(0.2).Mismatch {
			unfair++
		}
	}
	if fair > 6 || unfair < 950 { // 1 is expected of the fair ones, with a deviation of 1
		t.Errorf("suspicious: %d fair ones and %d others of 1000", fair, unfair)
	}
}
