package shadow

import (
	"math"
	"math/rand/v2"
	"slices"
	"time"
)

// maxSamples bounds the samples that a reservoir keeps. The 99th percentile of so many has ten samples above it.
const maxSamples = 1024

// reservoir keeps an even sample of all pairs of compute times that it saw (Vitter's algorithm R). Its choices depend
// on nothing but how many came before.
type reservoir struct {
	seen            uint64
	random          rand.PCG // the zero value is as good a seed as any
	primary, shadow []time.Duration
}

func (r *reservoir) add(primary, shadow time.Duration) {
	r.seen++
	if len(r.primary) < maxSamples {
		r.primary, r.shadow = append(r.primary, primary), append(r.shadow, shadow)
		return
	}
	if i := rand.New(&r.random).Uint64N(r.seen); i < maxSamples {
		r.primary[i], r.shadow[i] = primary, shadow
	}
}

// quantiles sorts the sample and returns its values at parts of it, such as 0.5, by nearest rank; zeros of an empty
// sample.
func quantiles(sample []time.Duration, parts ...float64) []time.Duration {
	at := make([]time.Duration, len(parts))
	if len(sample) == 0 {
		return at
	}
	slices.Sort(sample)
	for i, part := range parts {
		rank := int(math.Ceil(part * float64(len(sample))))
		at[i] = sample[max(rank, 1)-1]
	}
	return at
}
