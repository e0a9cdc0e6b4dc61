package sim

import (
	"math"
	"math/rand/v2"
	"time"
)

// Process says how the requests of a model arrive. Its mean rate is the model's.
type Process struct {
	// CV is the coefficient of variation of the gaps between arrivals, which follow a Gamma distribution. 0 and 1:
	// Poisson.
	CV float64
	// Course is how the rate changes over time; nil: it does not. Factors are relative to the model's rate.
	Course func(rng *rand.Rand, span time.Duration) []Stretch
	// Together makes all models of a workload follow one and the same course, such as bursts that come to all at once.
	Together bool
}

// Stretch is a time of constant rate.
type Stretch struct {
	Until  time.Duration // since the beginning
	Factor float64       // of the model's rate
}

// OnOff is a course of bursts: a state in which all requests come, and one in which none do, of these mean lengths.
// With Poisson arrivals this is a Markov-modulated Poisson process.
func OnOff(on, off time.Duration) func(*rand.Rand, time.Duration) []Stretch {
	return func(rng *rand.Rand, span time.Duration) []Stretch {
		var course []Stretch
		high := (on + off).Seconds() / on.Seconds()
		active := rng.Float64()*high < 1
		for at := time.Duration(0); at < span; {
			factor, mean := 0.0, off
			if active {
				factor, mean = high, on
			}
			at += 1 + time.Duration(rng.ExpFloat64()*float64(mean))
			course = append(course, Stretch{at, factor})
			active = !active
		}
		return course
	}
}

// Diurnal is a course that swings like a sine between 1-depth and 1+depth.
func Diurnal(period time.Duration, depth float64) func(*rand.Rand, time.Duration) []Stretch {
	return func(_ *rand.Rand, span time.Duration) []Stretch {
		const steps = 64 // per period
		var course []Stretch
		for i := 0; time.Duration(i)*period/steps < span; i++ {
			course = append(course, Stretch{
				time.Duration(i+1) * period / steps, 1 + depth*math.Sin(2*math.Pi*(float64(i)+0.5)/steps),
			})
		}
		return course
	}
}

// Part is a Stretch whose end counts equal parts of the span.
type Part struct {
	Until  int
	Factor float64
}

// Course is a given course over a number of equal parts of the span. The last factor stays.
func Course(parts int, course ...Part) func(*rand.Rand, time.Duration) []Stretch {
	return func(_ *rand.Rand, span time.Duration) []Stretch {
		var scaled []Stretch
		for _, p := range course {
			scaled = append(scaled, Stretch{span * time.Duration(p.Until) / time.Duration(parts), p.Factor})
		}
		return scaled
	}
}

// times appends the arrivals within the span to out. A constant rate is bent into the course afterwards: an arrival
// comes when the expected number of arrivals until then is the one that the constant process needs, so that the
// variation of the gaps is kept.
func (p *Process) times(rate float64, span time.Duration, gaps *rand.Rand, course []Stretch, out []Time) []Time {
	if rate <= 0 {
		return out
	}
	shape := 1.0
	if p.CV > 0 {
		shape = 1 / (p.CV * p.CV)
	}
	// In units of the mean gap. It begins long enough before the beginning to have forgotten how it began: otherwise
	// every model would begin with a burst at the same moment.
	at := -5 / shape * (1 + gaps.Float64())
	for at < 0 {
		at += gammaVariate(gaps, shape) / shape
	}
	stretch, spent := 0, 0.0 // stretches that are over, arrivals expected in them
	from := time.Duration(0)
	for {
		factor, until := 1.0, span
		if len(course) > 0 {
			factor = course[min(stretch, len(course)-1)].Factor
			if stretch < len(course)-1 {
				until = min(course[stretch].Until, span)
			}
		}
		room := rate * factor * (until - from).Seconds()
		if at-spent >= room {
			if until >= span {
				return out
			}
			spent += room
			from = until
			stretch++
			continue
		}
		out = append(out, Time(from)+Time((at-spent)/(rate*factor)*1e9))
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
