package rollout

import "math"

// fewest is how many faults there must be at least before they say anything: without it the first request could end a
// rollout.
const fewest = 3

// surelyAbove reports whether hits of tries show that the true probability of a hit is above limit. However often it is
// asked while the tries grow, it is ever wrong with probability at most alpha.
//
// The likelihood of the tries averaged over all probabilities, evenly, is B(hits+1, tries-hits+1) with the beta
// function B. Divided by the likelihood under limit it is a nonnegative martingale that starts at 1 if limit is the
// truth (Ville 1939; Robbins 1970), and so ever reaches 1/alpha with probability at most alpha. Under a truth below
// limit there are fewer hits still. Stragglers and retries make tries depend on each other, which no such test allows
// for.
func surelyAbove(hits, tries int64, limit, alpha float64) bool {
	h, n := float64(hits), float64(tries)
	if hits < fewest || !(h > limit*n) {
		return false
	}
	lgamma := func(x float64) float64 { y, _ := math.Lgamma(x); return y }
	mixed := lgamma(h+1) + lgamma(n-h+1) - lgamma(n+2)
	return mixed-h*math.Log(limit)-(n-h)*math.Log1p(-limit) >= -math.Log(alpha)
}
