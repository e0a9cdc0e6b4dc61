package sim

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"time"
)

// maxBatch is the largest batch of every model of the suite.
const maxBatch = 64

// Suite returns the workloads on which policies are compared by the load they carry. The models are synthetic, their
// costs linear in rows. Where they are drawn at random, three sets are, with consecutive seeds.
func Suite() []Workload {
	return []Workload{
		suiteWorkload("single", "one model", 1, []Model{linear("only", 4, 0.4, 100, 1)}),
		suiteWorkload("homog20", "20 equal models, equally popular", 1, equal(20, 4, 0.4, 200)),
		suiteWorkload("het30", "30 unlike models, Zipf popularity", 1, draws(30, heterogeneous)...),
		suiteWorkload("het30cv3", "the same in bursts (CV 3)", 3, draws(30, heterogeneous)...),
		suiteWorkload("het100", "100 unlike models, Zipf popularity", 1, draws(100, heterogeneous)...),
		suiteWorkload("het100cv4", "the same in bursts (CV 4)", 4, draws(100, heterogeneous)...),
		suiteWorkload("bimodal", "5 models that want answers in 40 ms beside 35 that want them in 500 ms", 1,
			draws(40, bimodal)...),
		suiteWorkload("blocker", "2 heavy models with 1 s beside 10 light ones with 60 ms", 1, blocker()),
	}
}

// Bursts returns 30 unlike models, a single draw, under arrivals that vary in other ways.
func Bursts() []Workload {
	course := func(name, about string, p Process) Workload {
		w := suiteWorkload(name, about, 0, heterogeneous(30, 30))
		w.Arrivals = []Process{p}
		w.Further = true
		return w
	}
	return []Workload{
		course("onoff", "each model's requests come in a fifth of the time, for 0.2 s on average",
			Process{Course: OnOff(200*time.Millisecond, 800*time.Millisecond)}),
		course("together", "bursts that come to all models at once: threefold load for 0.1 s on average, none for 0.2 "+
			"s",
			Process{Course: OnOff(100*time.Millisecond, 200*time.Millisecond), Together: true}),
		course("diurnal", "the load of all swings by half, with a period of 5 s",
			Process{Course: Diurnal(5*time.Second, 0.5)}),
	}
}

func suiteWorkload(name, about string, cv float64, draws ...[]Model) Workload {
	for _, models := range draws {
		toCapacity(models)
	}
	return Workload{
		Name: name, About: about, Models: draws[0], Again: draws[1:], Arrivals: []Process{{CV: cv}},
		Device: TypicalDevice,
	}
}

// linear returns a model whose batch of b takes base + b*perRow; times in milliseconds.
func linear(name string, base, perRow, slo, popularity float64) Model {
	return Model{
		Name: name, Base: milliseconds(base), PerRow: milliseconds(perRow), SLO: milliseconds(slo), MaxBatch: maxBatch,
		Rate: popularity,
	}
}

func equal(n int, base, perRow, slo float64) []Model {
	models := make([]Model, n)
	for i := range models {
		models[i] = linear(fmt.Sprintf("m%02d", i), base, perRow, slo, 1)
	}
	return models
}

// timesDrawn is how often models are drawn.
const timesDrawn = 3

// draws draws n models several times, with the seeds n, n+1 and so on.
func draws(n int, draw func(n int, seed uint64) []Model) [][]Model {
	var all [][]Model
	for k := range timesDrawn {
		all = append(all, draw(n, uint64(n+k)))
	}
	return all
}

// heterogeneous draws n models: base cost log-uniform in 0.5 to 8 ms, 5 to 30 % of it per row, SLO one of 50, 100, 250
// and 500 ms, popularity by Zipf with exponent 0.95.
func heterogeneous(n int, seed uint64) []Model {
	rng := rand.New(rand.NewPCG(seed, 1))
	slos := []float64{50, 100, 250, 500}
	models := make([]Model, n)
	for i := range models {
		models[i] = drawn(i, rng, slos[rng.IntN(len(slos))])
	}
	return models
}

func drawn(i int, rng *rand.Rand, slo float64) Model {
	base := 0.5 * math.Pow(16, rng.Float64())
	return linear(fmt.Sprintf("m%02d", i), base, base*(0.05+0.25*rng.Float64()), slo, math.Pow(float64(i+1), -0.95))
}

// bimodal spreads the tight models over the ranks of popularity.
func bimodal(n int, seed uint64) []Model {
	rng := rand.New(rand.NewPCG(seed, 1))
	models := make([]Model, n)
	for i := range models {
		slo := 500.0
		if i%8 == 3 {
			slo = 40
		}
		models[i] = drawn(i, rng, slo)
	}
	return models
}

// blocker gives the two heavy models half of the device and the ten light ones the other half.
func blocker() []Model {
	models := []Model{linear("heavy0", 20, 8, 1000, 1), linear("heavy1", 20, 8, 1000, 1)}
	for i := range 10 {
		models = append(models, linear(fmt.Sprintf("light%d", i), 1, 0.1, 60, 1))
	}
	demands(models[:2], 0.25)
	demands(models[2:], 0.05)
	return models
}

// inSuite returns the workload of that name, which the suite must have.
func inSuite(name string) *Workload {
	all := Suite()
	return &all[slices.IndexFunc(all, func(w Workload) bool { return w.Name == name })]
}
