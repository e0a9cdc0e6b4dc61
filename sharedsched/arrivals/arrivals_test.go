package arrivals

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"
)

// gaps returns the mean rate per second and the coefficient of variation of the gaps between arrivals.
func gaps(times []time.Duration) (rate, cv float64) {
	var sum, squares float64
	for i := 1; i < len(times); i++ {
		g := float64(times[i]-times[i-1]) / 1e9
		sum += g
		squares += g * g
	}
	n := float64(len(times) - 1)
	mean := sum / n
	return 1 / mean, math.Sqrt(squares/n-mean*mean) / mean
}

func TestRateAndVariation(t *testing.T) {
	const span = 2000 * time.Second
	for _, want := range []float64{0.2, 0.5, 1, 2, 3, 4} {
		g := Gamma{Rate: 50, CV: want}
		times := g.Times(span, rand.New(rand.NewPCG(1, 1)), nil)
		if rate, cv := gaps(times); math.Abs(rate/50-1) > 0.02*max(want, 1) || math.Abs(cv/want-1) > 0.03 {
			t.Errorf("CV %g at 50/s: got %.2f at %.2f/s", want, cv, rate)
		}
		// A process that began at time zero would have more arrivals there than later.
		early := 0
		for seed := range uint64(2000) {
			early += len(g.Times(200*time.Millisecond, rand.New(rand.NewPCG(seed, 1)), nil))
		}
		if mean := float64(early) / 2000; math.Abs(mean/10-1) > 0.1 {
			t.Errorf("CV %g: %.2f arrivals in the first 0.2 s on average, want 10", want, mean)
		}
	}
}
