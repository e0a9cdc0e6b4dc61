package sim

import (
	"math"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/weftserve/weft/sharedsched/arrivals"
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
	// Every is the period of callers that act at the same moments, such as robots that each ask once a period; 0:
	// they do not. Jitter is how much later than that a request may be. CV and Course mean nothing then.
	Every, Jitter time.Duration
	// Think is how long after an answer its caller asks again, on average. There are as many as ask at the model's rate if
	// each is answered in half of its SLO; 0: they do not wait for answers.
	Think time.Duration
}

// times appends the arrivals of a model to out.
func (p *Process) times(rate float64, slo time.Duration, course []Stretch, span time.Duration, rng *rand.Rand,
	out []time.Duration,
) []time.Duration {
	if p.Think > 0 { // the first time that each of them asks
		cycle := (p.Think + slo/2).Seconds()
		for range max(1, int(rate*cycle+0.5)) {
			out = append(out, time.Duration(rng.Float64()*min(cycle, span.Seconds())*float64(time.Second)))
		}
		slices.Sort(out)
		return out
	}
	if p.Every == 0 {
		return arrivals.Gamma{Rate: rate, CV: p.CV, Course: course}.Times(span, rng, out)
	}
	// A fraction of a robot asks in that part of the periods.
	robots, begun := rate*p.Every.Seconds(), rng.Float64()
	for at := time.Duration(0); at < span; at += p.Every {
		for begun += robots; begun >= 1; begun-- {
			late := time.Duration(rng.Float64() * float64(p.Jitter))
			if at+late < span {
				out = append(out, at+late)
			}
		}
	}
	slices.Sort(out)
	return out
}

// Stretch is a time of constant rate.
type Stretch = arrivals.Stretch

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
			course = append(course, Stretch{Until: at, Factor: factor})
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
				Until:  time.Duration(i+1) * period / steps,
				Factor: 1 + depth*math.Sin(2*math.Pi*(float64(i)+0.5)/steps),
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
			until := span * time.Duration(p.Until) / time.Duration(parts)
			scaled = append(scaled, Stretch{Until: until, Factor: p.Factor})
		}
		return scaled
	}
}
