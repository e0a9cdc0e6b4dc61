package cost

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

func repeat(c *Curve, rows, times int, sample time.Duration) {
	for range times {
		measure(c, rows, sample)
	}
}

func TestHighGoesWithTheSpread(t *testing.T) {
	for _, tc := range []struct {
		name    string
		samples []time.Duration
		want    time.Duration
	}{
		{"no spread: 2 % at least", []time.Duration{100 * ms, 100 * ms, 100 * ms, 100 * ms, 100 * ms}, 102 * ms},
		{
			"3 × 1.4826 × a MAD of 5ms",
			[]time.Duration{90 * ms, 95 * ms, 100 * ms, 105 * ms, 110 * ms},
			122239 * time.Microsecond,
		},
		{
			"few samples: a quarter more",
			[]time.Duration{100 * ms, 100 * ms, 100 * ms, 100 * ms},
			127500 * time.Microsecond,
		},
	} {
		var c Curve
		measure(&c, 1, tc.samples...)
		if got := c.Estimate(1); got.High != tc.want || got.Cost != 100*ms {
			t.Errorf("%s: %+v, want 100ms and %v", tc.name, got, tc.want)
		}
	}
}

func TestSpreadIsTheMedianOfTheDistances(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for range 2000 {
		values := make([]time.Duration, 1+rng.IntN(window))
		for i := range values {
			values[i] = time.Duration(rng.IntN(20))
		}
		slices.Sort(values)
		middle := (len(values) - 1) / 2
		distances := make([]time.Duration, len(values))
		for i, v := range values {
			distances[i] = (v - values[middle]).Abs()
		}
		slices.Sort(distances)
		if got, want := spread(values), distances[middle]; got != want {
			t.Fatalf("spread(%v) = %v, want %v", values, int64(got), int64(want))
		}
	}
}

func TestOutliersAreSetAside(t *testing.T) {
	var c Curve
	repeat(&c, 1, window, 100*ms)
	for range 10 { // never three in a row
		measure(&c, 1, 126*ms, 200*ms)
		repeat(&c, 1, 4, 100*ms)
		measure(&c, 1, 70*ms)
		repeat(&c, 1, 8, 100*ms)
	}
	measure(&c, 1, 130*ms, 131*ms, 70*ms) // the third of these is one too many, but on the other side
	e := c.Entries()[0]
	if e.Median != 100*ms || e.Outliers != 32 || c.Drifts() != 0 {
		t.Errorf("%+v and %d drifts, want a median of 100ms, 32 outliers and none", e, c.Drifts())
	}
	if e.MAD != 0 {
		t.Errorf("outliers widened the MAD to %v", e.MAD)
	}
}

// TestAWideSpreadHasNoOutliers has samples that are apart as a rule: a usual sample is no outlier.
func TestAWideSpreadHasNoOutliers(t *testing.T) {
	var c Curve
	for range 20 {
		measure(&c, 1, 70*ms, 85*ms, 100*ms, 115*ms, 130*ms)
	}
	if e := c.Entries()[0]; e.Outliers > 0 {
		t.Errorf("%+v, want no outliers from 70ms to 130ms", e)
	}
	c = Curve{}
	for range 20 { // the window's first samples look narrower than they are
		measure(&c, 1, 60*ms, 100*ms, 160*ms)
	}
	if e := c.Entries()[0]; e.Outliers > 5 || e.Median != 100*ms || e.High < 160*ms {
		t.Errorf("%+v, want next to no outliers about 100ms", e)
	}
}

func TestOutliersThatAgreeAreTheNewCost(t *testing.T) {
	for _, cost := range []time.Duration{30 * ms, 300 * ms} {
		var c Curve
		repeat(&c, 1, 100, 100*ms)
		repeat(&c, 1, 2, cost)
		if got := c.Estimate(1).Cost; got != 100*ms {
			t.Errorf("after two samples of %v: %v", cost, got)
		}
		repeat(&c, 1, 1, cost)
		if got := c.Estimate(1).Cost; got != cost || c.Drifts() != 1 {
			t.Errorf("after three samples of %v: %v and %d drifts, want that and 1", cost, got, c.Drifts())
		}
	}
}

// TestADriftIsFound has a change too small for outliers, which the median alone would follow after six samples.
func TestADriftIsFound(t *testing.T) {
	for _, cost := range []time.Duration{80 * ms, 120 * ms} {
		var c Curve
		repeat(&c, 1, window, 100*ms)
		repeat(&c, 1, 4, cost)
		e := c.Entries()[0]
		if e.Median != cost || e.Samples > 4 || e.Outliers != 0 || c.Drifts() != 1 {
			t.Errorf("after four samples of %v: %+v and %d drifts, want that from a new window and 1", cost, e,
				c.Drifts())
		}
	}
}

func TestASlowChangeIsFollowedWithoutRestart(t *testing.T) {
	var c Curve
	repeat(&c, 1, window, 100*ms)
	repeat(&c, 1, 6, 110*ms)
	if got := c.Estimate(1).Cost; got != 110*ms || c.Drifts() != 0 {
		t.Errorf("after six of eleven samples changed by 10 %%: %v and %d drifts, want 110ms and none", got, c.Drifts())
	}
}

func TestHighIsWiderAfterADrift(t *testing.T) {
	var c Curve
	repeat(&c, 1, window, 100*ms)
	repeat(&c, 1, 3, 200*ms)
	for _, want := range []time.Duration{255 * ms, 255 * ms, 204 * ms} {
		if got := c.Estimate(1).High; got != want {
			t.Errorf("high is %v, want %v", got, want)
		}
		measure(&c, 1, 200*ms)
	}
}

// TestNoiseIsNoDrift has samples spread as 20 % of normal noise: with limits for quiet devices alone, a window would be
// restarted at every tenth of them, and medians would be of three samples most of the time.
func TestNoiseIsNoDrift(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	var c Curve
	const n = 5000
	for range n {
		measure(&c, 1, time.Duration(float64(100*ms)*max(0.1, 1+0.2*rng.NormFloat64())))
	}
	if c.Drifts() > n/50 {
		t.Errorf("%d drifts in %d samples of the same distribution", c.Drifts(), n)
	}
}
