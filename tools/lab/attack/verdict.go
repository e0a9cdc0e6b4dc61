package main

import (
	"math"
	"slices"
)

// Limits of the verdicts.
const (
	slack       = 64   // MiB of memory
	mostRatio   = 2    // of the p99 of honest callers during an attack over that during its control
	mostAtRest  = 0.05 // part of a processor
	noneOfThese = 0
)

// verdict is what an attack cost, over all rounds: medians, and sums of what may never be.
type verdict struct {
	attack       *attack
	rounds       []round
	growth, left float64 // MiB over rest: at most, and after
	p99, control float64 // ms
	lost         int
	afterCPU     float64
	died         bool
	budget       float64
}

func judge(a *attack, rounds []round, budget float64) verdict {
	v := verdict{attack: a, rounds: rounds, budget: budget}
	for _, r := range rounds {
		if r.died {
			v.died = true
			return v
		}
		v.lost += r.attack.Lost
	}
	rest := rounds[0].rest
	v.growth = v.median(func(r round) float64 { return r.attack.peak.memory() - rest.memory() })
	v.left = v.median(func(r round) float64 { return r.after.memory() - rest.memory() })
	v.p99 = v.median(func(r round) float64 { return quantile(r.attack.Ms, 0.99) })
	v.control = v.median(func(r round) float64 { return quantile(r.control.Ms, 0.99) })
	v.afterCPU = v.median(func(r round) float64 { return r.afterCPU })
	return v
}

func (v *verdict) median(of func(round) float64) float64 {
	var all []float64
	for _, r := range v.rounds {
		all = append(all, of(r))
	}
	slices.Sort(all)
	return quantile(all, 0.5)
}

// fails returns what an attack does that it must not.
func (v *verdict) fails() (all []string) {
	if v.died {
		return []string{"died"}
	}
	for _, f := range []struct {
		name string
		is   bool
	}{
		{"memory", v.growth > slack+v.budget},
		{"p99", v.ratio() > mostRatio},
		{"lost", v.lost > noneOfThese},
		{"busy after", v.afterCPU >= mostAtRest},
		{"memory after", v.left > slack},
	} {
		if f.is {
			all = append(all, f.name)
		}
	}
	return all
}

// ratio is infinite if nobody was answered during the attack.
func (v *verdict) ratio() float64 {
	if v.p99 == 0 || v.control == 0 {
		return math.Inf(1)
	}
	return v.p99 / v.control
}

// quantile returns a quantile of ascending numbers, 0 of none.
func quantile(ascending []float64, q float64) float64 {
	if len(ascending) == 0 {
		return 0
	}
	return ascending[min(len(ascending)-1, int(q*float64(len(ascending))))]
}
