package rollout

import (
	"math"
	"time"
)

// p95 returns the 95th percentile of an ascending sample, and bounds three standard errors of its rank below and above.
// Without enough values above it (210 in all) there is no upper bound and high is the largest duration there is. The
// sample must not be empty.
//
// A gate compares bounds, not estimates, so that chance promotes nobody. Libraries of quantiles (gonum's stat.Quantile,
// sketches such as DDSketch and t-digest) estimate a value without such bounds.
func p95(sample []time.Duration) (low, mid, high time.Duration) {
	const q = 0.95
	n := float64(len(sample))
	spread := 3 * math.Sqrt(n*q*(1-q))
	at := func(rank float64) time.Duration { return sample[max(int(rank), 1)-1] }
	high = math.MaxInt64
	if top := math.Ceil(n*q+spread) + 1; top <= n {
		high = at(top)
	}
	return at(math.Floor(n*q - spread)), at(math.Ceil(n * q)), high
}
