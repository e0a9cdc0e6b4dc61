package replay

import (
	"math"
	"math/rand/v2"
	"slices"
	"time"
)

// maxDurations is the number of durations up to which percentiles are exact; they take 512 KiB.
const maxDurations = 1 << 16

// durations is a uniform sample of the durations that were added: all of them up to maxDurations.
type durations struct {
	seen   int
	sample []time.Duration
}

// add adds a duration. Beyond maxDurations it replaces a random one with the probability that keeps the sample uniform
// (reservoir sampling).
func (d *durations) add(x time.Duration) {
	d.seen++
	if len(d.sample) < maxDurations {
		d.sample = append(d.sample, x)
	} else if i := rand.IntN(d.seen); i < maxDurations {
		d.sample[i] = x
	}
}

// ascending sorts the sample and returns it. Nothing may be added after that.
func (d *durations) ascending() []time.Duration {
	slices.Sort(d.sample)
	return d.sample
}

// percentile returns the least duration that a part of the sample does not exceed, or 0 of an empty sample.
func percentile(ascending []time.Duration, part float64) time.Duration {
	if len(ascending) == 0 {
		return 0
	}
	// The nearest rank: a duration that was measured, and no mean of two.
	rank := int(math.Ceil(part * float64(len(ascending))))
	return ascending[max(rank, 1)-1]
}
