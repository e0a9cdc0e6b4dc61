package rollout

import (
	"math/rand/v2"
	"testing"
)

// TestSurelyAboveCalibration: at the limit itself, asked after every request, it is wrong in at most alpha of the runs.
func TestSurelyAboveCalibration(t *testing.T) {
	const alpha = 0.05
	for _, p := range []float64{0.002, 0.01, 0.2} {
		wrong := 0
		for i := range uint64(simulated) {
			r := rand.New(rand.NewPCG(i, 3))
			hits := int64(0)
			for n := int64(1); n <= 3000; n++ {
				if r.Float64() < p {
					hits++
					if surelyAbove(hits, n, p, alpha) {
						wrong++
						break
					}
				}
			}
		}
		t.Logf("truth and limit %v: wrong in %d of %d", p, wrong, simulated)
		if float64(wrong)/simulated > limit(alpha) {
			t.Errorf("truth and limit %v: wrong in %d of %d runs", p, wrong, simulated)
		}
	}
}

func TestSurelyAbove(t *testing.T) {
	for _, c := range []struct {
		hits, tries int64
		limit       float64
		want        bool
	}{
		{0, 0, 0.01, false},
		{2, 2, 0.01, false}, // too few to say anything
		{3, 3, 0.01, true},
		{3, 100, 0.01, false},
		{6, 100, 0.01, true},
		{10, 1000, 0.01, false}, // at the limit
		{5, 1000, 0.01, false},
		{50, 1000, 0.01, true},
		{500, 100_000, 0.01, false}, // far below
		{3, 1_000_000, 0, true},     // none was allowed
		{0, 1_000_000, 0, false},
		{100, 100, 1, false}, // all are allowed
	} {
		if got := surelyAbove(c.hits, c.tries, c.limit, 0.05); got != c.want {
			t.Errorf("%d of %d against %v: %v", c.hits, c.tries, c.limit, got)
		}
	}
}
