// Package arrivals draws the times at which requests arrive.
package arrivals

import (
	"math"
	"math/rand/v2"
	"time"
)

// Gamma is arrivals whose gaps follow a Gamma distribution.
type Gamma struct {
	Rate float64 // mean, per second
	// CV is the coefficient of variation of the gaps. 0 and 1: Poisson.
	CV     float64
	Course []Stretch // how the rate changes over time; empty: it does not
}

// Stretch is a time of constant rate.
type Stretch struct {
	Until  time.Duration // since the beginning
	Factor float64       // of the mean rate
}

// Times appends the arrivals within the span to out. A constant rate is bent into the course afterwards: an arrival
// comes when the expected number of arrivals until then is the one that the constant process needs, so that the
// variation of the gaps is kept.
func (g Gamma) Times(span time.Duration, gaps *rand.Rand, out []time.Duration) []time.Duration {
	if g.Rate <= 0 {
		return out
	}
	shape := 1.0
	if g.CV > 0 {
		shape = 1 / (g.CV * g.CV)
	}
	// In units of the mean gap. It begins long enough before the beginning to have forgotten how it began: otherwise
	// every source would begin with a burst at the same moment.
	at := -5 / shape * (1 + gaps.Float64())
	for at < 0 {
		at += gammaVariate(gaps, shape) / shape
	}
	stretch, spent := 0, 0.0 // stretches that are over, arrivals expected in them
	from := time.Duration(0)
	for {
		factor, until := 1.0, span
		if len(g.Course) > 0 {
			factor = g.Course[min(stretch, len(g.Course)-1)].Factor
			if stretch < len(g.Course)-1 {
				until = min(g.Course[stretch].Until, span)
			}
		}
		room := g.Rate * factor * (until - from).Seconds()
		if at-spent >= room {
			if until >= span {
				return out
			}
			spent += room
			from = until
			stretch++
			continue
		}
		out = append(out, from+time.Duration((at-spent)/(g.Rate*factor)*1e9))
		at += gammaVariate(gaps, shape) / shape
	}
}

// gammaVariate draws from the Gamma distribution of the given shape and scale 1: Marsaglia and Tsang, "A simple method
// for generating gamma variables", 2000.
func gammaVariate(rng *rand.Rand, shape float64) float64 {
	if shape == 1 {
		return rng.ExpFloat64()
	}
	if shape < 1 {
		return gammaVariate(rng, shape+1) * math.Pow(1-rng.Float64(), 1/shape)
	}
	d := shape - 1.0/3
	c := 1 / math.Sqrt(9*d)
	for {
		x := rng.NormFloat64()
		v := 1 + c*x
		if v <= 0 {
			continue
		}
		v = v * v * v
		if math.Log(1-rng.Float64()) < 0.5*x*x+d-d*v+d*math.Log(v) {
			return d * v
		}
	}
}
