package shadow

import (
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

// quantiles sorts the sample and returns its median and its 99th percentile, by nearest rank; zeros of an empty sample.
func quantiles(sample []time.Duration) (p50, p99 time.Duration) {
	if len(sample) == 0 {
		return 0, 0
	}
	slices.Sort(sample)
	nearest := func(percent int) time.Duration { return sample[(percent*len(sample)+99)/100-1] } // rounded up
	return nearest(50), nearest(99)
}
