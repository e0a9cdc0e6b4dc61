package sim

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/weftserve/weft/sharedsched"
)

// Workloads that nobody chose: Generate draws everything that a workload has from ranges that stand here, wide enough
// to hold each case in which some scheduler was found to collapse. The ranges are changed before a rule is tuned, not
// after: a figure on workloads that were chosen for it says nothing.
const (
	mostModels = 60

	cheapest, dearest  = 20 * time.Microsecond, 300 * time.Millisecond // of an execution of one row
	flattest, steepest = 0.005, 1.0                                    // cost of a row over that of an execution

	// What callers wait for, over the time that one row takes, and in all.
	leastOver, mostOver   = 2.5, 300.0
	soonestSLO, latestSLO = 500 * time.Microsecond, 16 * time.Second

	fewestRequests, mostRequests = 2_000, 30_000 // of a run
	longestSpan                  = time.Minute   // of one with more than the fewest
)

// Generated is a workload that was drawn.
type Generated struct {
	Seed     uint64
	Workload Workload
	Span     time.Duration // of arrivals, for some ten thousand requests at load 1
	Load     float64       // at which it is played once
}

// Generate draws a workload and a load.
func Generate(seed uint64) Generated {
	g := generator{Rand: rand.New(rand.NewPCG(seed, 0x77656674))}
	models := g.models()
	toCapacity(models)
	g.upset(models)
	w := Workload{Name: fmt.Sprintf("generated %d", seed), Models: models, Device: g.device()}
	w.Arrivals = g.arrivals(len(models))
	g.cold(&w)
	if g.chance(0.1) {
		g.say("profiles wrong by 20 %%")
		for range models {
			w.Error = append(w.Error, math.Exp(0.2*g.NormFloat64()))
		}
	}
	switch change := g.Float64(); {
	case change < 0.05:
		g.say("clock 30 %% down for half of the time")
		w.Pace = during(1, 3, 4, Pace{Speed: 0.7})
	case change < 0.1:
		g.say("a co-tenant comes and goes")
		w.Pace = coTenant
	}
	load := pickOf(&g, 0.3, 0.5, 0.7, 0.8, 0.9, 0.95, 1, 1.1, 1.3, 1.6, 2, 3, 5, 10)
	more := generator{Rand: rand.New(rand.NewPCG(seed, 0x6d6f7265))} // so that all else is drawn as it is without
	span := more.further(&w)
	w.About = fmt.Sprintf("%s; load %g", strings.Join(slices.Concat(g.about, more.about), "; "), load)
	return Generated{Seed: seed, Workload: w, Span: span, Load: load}
}

// further draws what not every device has: weights, callers who wait for answers, bursts of seconds, shadows. It
// returns the span.
func (g *generator) further(w *Workload) time.Duration {
	models := w.Models
	one := func() int { return g.IntN(len(models)) }
	if len(w.Arrivals) == 1 {
		w.Arrivals = slices.Repeat(w.Arrivals, len(models))
	}
	span := spanOf(models, 1)
	if g.chance(0.2) {
		for i := range models {
			models[i].Weight = pickOf(g, 1.0, 1, 3, 10)
		}
		g.say("weights of 1, 3 and 10")
	}
	if share := pickOf(g, 0.1, 0.5, 1); g.chance(0.15) {
		for i := range models {
			if g.chance(share) || i == 0 {
				w.Arrivals[i] = Process{Think: time.Duration(g.between(0.3, 30) * float64(models[i].Cost(1)))}
			}
		}
		g.say("%g of the models have callers who wait for answers", share)
	}
	// Where it lasts long enough for several of them.
	on, off := g.duration(time.Second, 5*time.Second), g.duration(9*time.Second, 30*time.Second)
	if i := one(); g.chance(0.3) && span >= longestSpan/2 {
		w.Arrivals[i] = Process{Course: OnOff(on, off)}
		g.say("%s in bursts of %v each %v", models[i].Name, on.Round(time.Millisecond), (on + off).Round(time.Millisecond))
	}
	for i := range models {
		if models[i].Cold && g.chance(0.5) {
			models[i].MaxBatch = 256
			g.say("%s with batches to 256", models[i].Name)
		}
	}
	if g.chance(0.15) {
		for range 1 + g.IntN(3) {
			m := models[one()]
			m.Name, m.Cold, m.Rate = m.Name+" in the shadow", false, m.Rate*g.between(0.1, 1)
			m.SLO = max(10*m.SLO, 10*time.Second)
			m.Mix = []Wish{{Share: 1, SLO: m.SLO, Priority: sharedsched.Sheddable}}
			w.Models, w.Arrivals = append(w.Models, m), append(w.Arrivals, Process{})
			if w.Error != nil {
				w.Error = append(w.Error, 1)
			}
			g.say("%s", m.Name)
		}
	}
	return span
}

// spanOf returns how long requests come so that there are enough of them, and not too many.
func spanOf(models []Model, load float64) time.Duration {
	rate := 0.0
	for i := range models {
		rate += models[i].Rate * load
	}
	lasts := func(requests float64) time.Duration { return time.Duration(requests / rate * float64(time.Second)) }
	return max(lasts(fewestRequests), min(longestSpan, lasts(mostRequests)))
}

type generator struct {
	*rand.Rand

	about []string
}

func (g *generator) say(format string, args ...any) {
	g.about = append(g.about, fmt.Sprintf(format, args...))
}

func (g *generator) chance(p float64) bool { return g.Float64() < p }

// between draws from a range so that each factor is as likely.
func (g *generator) between(low, high float64) float64 { return low * math.Pow(high/low, g.Float64()) }

func (g *generator) duration(low, high time.Duration) time.Duration {
	return time.Duration(g.between(float64(low), float64(high)))
}

func pickOf[T any](g *generator, from ...T) T { return from[g.IntN(len(from))] }

// models draws models. Only the proportions of their rates matter.
func (g *generator) models() []Model {
	n := int(g.between(1, mostModels+1))
	typical := g.duration(cheapest, dearest/3)
	spread := pickOf(g, 1.0, 3, 15, 100)
	slope := g.between(flattest, steepest)
	slopes := g.chance(0.5) // each model has its own
	zipf := pickOf(g, 0, 0.95, 1.5, 2.5)
	byTime := g.chance(0.5) // popularity is of device time
	unbatched := pickOf(g, 0, 0, 0, 0.3, 1)
	size := pickOf(g, 8, 32, 64, 64, 256)
	impatience := g.between(leastOver, mostOver) // of most
	own := g.chance(0.6)                         // each model has its own
	mixed := pickOf(g, 0, 0, 0.3, 1)
	g.say("%d models of about %v (spread %g, slope %.3g, batches to %d, %g unbatched), popularity Zipf %g, %g mixed",
		n, typical.Round(time.Microsecond), spread, slope, size, unbatched, zipf, mixed)
	models := make([]Model, n)
	for i := range models {
		row := float64(typical) * g.between(1/math.Sqrt(spread), math.Sqrt(spread))
		row = min(max(row, float64(cheapest)), float64(dearest))
		if slopes {
			slope = g.between(flattest, steepest)
		}
		if own {
			impatience = g.between(leastOver, mostOver)
		}
		m := &models[i]
		*m = Model{
			Name: fmt.Sprintf("m%02d", i), Base: time.Duration(row / (1 + slope)), MaxBatch: size,
			PerRow: time.Duration(row * slope / (1 + slope)), Rate: math.Pow(float64(i+1), -zipf),
			SLO: min(max(time.Duration(row*impatience), soonestSLO), latestSLO),
		}
		if byTime {
			m.Rate /= row
		}
		if g.chance(unbatched) {
			m.MaxBatch = 1
		}
		if g.chance(mixed) {
			m.Mix = g.mix(m)
		}
	}
	return models
}

// mix draws what the callers of a model want: some are more patient than others, or matter more.
func (g *generator) mix(m *Model) []Wish {
	ranked := g.chance(0.5)
	var all []Wish
	for range 2 + g.IntN(2) {
		w := Wish{
			Share: g.between(0.02, 1), Priority: sharedsched.Critical,
			SLO: min(max(time.Duration(float64(m.SLO)*g.between(0.25, 16)), soonestSLO), latestSLO),
		}
		if ranked {
			w.Priority = pickOf(g, sharedsched.CriticalPlus, sharedsched.Critical, sharedsched.SheddablePlus)
		}
		all = append(all, w)
	}
	return all
}

// upset changes some of the models, beyond the load that all of them have together.
func (g *generator) upset(models []Model) {
	if len(models) > 1 && g.chance(0.15) {
		m := &models[g.IntN(len(models))]
		m.Rate *= pickOf(g, 3.0, 10, 30)
		g.say("%s floods", m.Name)
	}
	if g.chance(0.2) {
		for range 1 + g.IntN(3) {
			m := &models[g.IntN(len(models))]
			m.Rate, m.Mix = g.between(0.5, 5), nil
			m.SLO = max(m.Cost(1)*2, g.duration(10*time.Millisecond, 50*time.Millisecond))
			g.say("%s is a trickle that wants answers in %v", m.Name, m.SLO.Round(time.Millisecond))
		}
	}
	if g.chance(0.1) {
		m := &models[g.IntN(len(models))]
		m.Keys = pickOf(g, 2, 10, 100)
		g.say("%s has %d shapes", m.Name, m.Keys)
	}
}

func (g *generator) device() Device {
	d := TypicalDevice
	d.Noise = pickOf(g, 0.015, 0.015, 0.015, 0.1, 0.5)
	if g.chance(0.15) {
		d.Stalls, d.StallFactor = 0.01, 10
	}
	g.say("noise %g, stalls %g of %g", d.Noise, d.Stalls, d.StallFactor)
	return d
}

func (g *generator) arrivals(models int) []Process {
	upTo := func(most time.Duration) time.Duration { return g.duration(20*time.Millisecond, most) }
	switch kind := g.Float64(); {
	case kind < 0.3:
		g.say("Poisson")
		return []Process{{}}
	case kind < 0.55:
		p := Process{CV: g.between(1.5, 6)}
		g.say("gaps of CV %.1f", p.CV)
		return []Process{p}
	case kind < 0.65:
		on, off := upTo(2*time.Second), upTo(2*time.Second)
		g.say("bursts of %v each %v", on, on+off)
		return []Process{{CV: pickOf(g, 1.0, 3), Course: OnOff(on, off)}}
	case kind < 0.75:
		on, off := upTo(time.Second/2), upTo(time.Second/2)
		g.say("bursts of all at once, of %v each %v", on, on+off)
		return []Process{{Course: OnOff(on, off), Together: true}}
	case kind < 0.8:
		g.say("load that swings")
		return []Process{{Course: Diurnal(g.duration(time.Second, 20*time.Second), 0.9)}}
	}
	// Robots act at the same moments, those of a model or of all.
	all := make([]Process, models)
	period := time.Second / pickOf[time.Duration](g, 10, 20, 20, 50, 100)
	share := pickOf(g, 0.3, 1)
	for i := range all {
		if g.chance(share) {
			all[i] = Process{Every: period, Jitter: time.Duration(float64(period) * pickOf(g, 0.01, 0.1, 0.5))}
		}
	}
	g.say("robots in phase every %v, %g of the models", period, share)
	return all
}

// cold makes some models come later, with costs that nobody knows.
func (g *generator) cold(w *Workload) {
	if !g.chance(0.1) {
		return
	}
	if len(w.Arrivals) == 1 {
		w.Arrivals = slices.Repeat(w.Arrivals, len(w.Models))
	}
	n := 0
	for i := range w.Models {
		if p := &w.Arrivals[i]; p.Course == nil && p.Every == 0 && g.chance(0.4) {
			w.Models[i].Cold, n = true, n+1
			p.Course = Course(4, Part{1, 0}, Part{4, 1})
		}
	}
	g.say("%d models come cold", n)
}
