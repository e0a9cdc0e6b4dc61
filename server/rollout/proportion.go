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
	return averaged(h, n)-h*math.Log(limit)-(n-h)*math.Log1p(-limit) >= -math.Log(alpha)
}

// averaged is the logarithm of the likelihood of h hits of n tries, averaged over all probabilities.
func averaged(h, n float64) float64 {
	lgamma := func(x float64) float64 { y, _ := math.Lgamma(x); return y }
	return lgamma(h+1) + lgamma(n-h+1) - lgamma(n+2)
}

// partBounds inverts the test of surelyAbove: it returns the probabilities between which the test does not reject the
// truth, from either side. They contain it at all times at once with probability 1-alpha. The test rejects a limit
// exactly if that is below low, given as many hits as it wants. tries must be positive.
func partBounds(hits, tries int64, alpha float64) (low, high float64) {
	h, n := float64(hits), float64(tries)
	average, enough := averaged(h, n), -math.Log(alpha)
	rejects := func(p float64) bool {
		against := average
		if hits > 0 {
			against -= h * math.Log(p)
		}
		if hits < tries {
			against -= (n - h) * math.Log1p(-p)
		}
		return against >= enough
	}
	// The likelihood falls from the part of hits towards both sides.
	bisect := func(rejected, kept float64) float64 {
		if !rejects(rejected) {
			return rejected
		}
		for {
			middle := (rejected + kept) / 2
			if middle == rejected || middle == kept {
				return kept
			}
			if rejects(middle) {
				rejected = middle
			} else {
				kept = middle
			}
		}
	}
	return bisect(0, h/n), bisect(1, h/n)
}
