package roster

import (
	"cmp"
	"fmt"
	"math"
	"math/bits"
	"math/rand/v2"
	"slices"
	"testing"
)

// A fluid model of a fleet: each replica has the capacity 1, a model's demand may be divided among its copies at will,
// and all demands grow together until one cannot be met. What is measured is the growth, as a part of that of a fleet
// whose replicas have all models.

const fleetSize, fleetModels = 8, 100

type fleet struct {
	replicas []Replica
	models   []Model
	demand   map[string]float64
	rng      *rand.Rand
}

// newFleet has 100 models of sizes 0.05 to 1, whose demands are as 1/k^0.9, in an order that has nothing to do with
// their sizes, and replicas with room for so many copies of each.
func newFleet(seed uint64, room float64) *fleet {
	f := &fleet{demand: map[string]float64{}, rng: rand.New(rand.NewPCG(seed, 42))}
	var sum int64
	for i := range fleetModels {
		m := Model{Name: fmt.Sprintf("model-%d-%d", seed, i), Size: int64(1e6 * (0.05 + 0.95*f.rng.Float64())), Copies: 2}
		f.models, sum = append(f.models, m), sum+m.Size
	}
	for k, i := range f.rng.Perm(fleetModels) {
		f.demand[f.models[i].Name] = math.Pow(float64(k+1), -0.9)
	}
	for i := range fleetSize {
		f.replicas = append(f.replicas,
			Replica{Name: fmt.Sprintf("weft-%d", i), Memory: int64(room * float64(sum) / fleetSize)})
	}
	return f
}

// share returns how much of the best a table serves. By the theorem of max-flow and min-cut the demands can grow until,
// for some set of replicas, the models that are nowhere else need all that these can do.
func (f *fleet) share(t *Table) float64 {
	sets, total := make([]float64, 1<<len(t.Replicas)), 0.0
	for _, m := range t.Models {
		set := 0
		for _, r := range m.On {
			set |= 1 << r
		}
		sets[set] += f.demand[m.Name]
		total += f.demand[m.Name]
	}
	best, growth := float64(len(t.Replicas))/total, math.Inf(1)
	for set := range sets {
		within := 0.0
		for s, demand := range sets {
			if s&^set == 0 {
				within += demand
			}
		}
		if within > 0 {
			growth = min(growth, float64(bits.OnesCount(uint(set)))/within)
		}
	}
	return growth / best
}

// changed has each demand become half, the same or twofold.
func (f *fleet) changed() *fleet {
	g := *f
	g.demand = map[string]float64{}
	for _, m := range f.models {
		g.demand[m.Name] = f.demand[m.Name] * []float64{0.5, 1, 2}[f.rng.IntN(3)]
	}
	return &g
}

// grown adds a replica like the others, and names it last.
func (f *fleet) grown() []Replica {
	return append(slices.Clone(f.replicas),
		Replica{Name: fmt.Sprintf("weft-%d", len(f.replicas)), Memory: f.replicas[0].Memory})
}

// loads returns the copies that a table has and another one did not, as a part of all copies, and how many models have
// none of their copies where they were.
func loads(before, now *Table) (part float64, strangers int) {
	all, loaded := 0, 0
	for i, m := range now.Models {
		was, stay := before.Names(&before.Models[i]), 0
		for _, r := range now.Names(&m) {
			if all++; slices.Contains(was, r) {
				stay++
			} else {
				loaded++
			}
		}
		if stay == 0 {
			strangers++
		}
	}
	return float64(loaded) / float64(all), strangers
}

// figures are of one fleet, or the mean or the worst of several: what is served of the best, the same after each demand
// changed, which part of the copies a ninth replica has loaded, and how many models have too few copies, or none where
// they were.
type figures struct{ share, after, loads, short, strangers float64 }

// measure returns the mean and the worst figures of fleets of 20 seeds. adjust, if there, changes each fleet before.
func measure(seed uint64, room float64, adjust func(*fleet)) (mean, worst figures) {
	worst = figures{share: 1, after: 1}
	const n = 20
	for i := range uint64(n) {
		f := newFleet(seed+i, room)
		if adjust != nil {
			adjust(f)
		}
		t := Place(f.replicas, f.models)
		now := figures{share: f.share(t), after: f.changed().share(t)}
		loaded, strangers := loads(t, Place(f.grown(), f.models))
		now.loads, now.strangers = loaded, float64(strangers)
		for _, m := range t.Models {
			if len(m.On) < m.Copies {
				now.short++
			}
		}
		worst = figures{
			min(worst.share, now.share), min(worst.after, now.after), max(worst.loads, now.loads),
			max(worst.short, now.short), max(worst.strangers, now.strangers),
		}
		mean.share += now.share / n
		mean.after += now.after / n
		mean.loads += now.loads / n
		mean.short += now.short / n
		mean.strangers += now.strangers / n
	}
	return mean, worst
}

// TestFleet has memory for three copies of each model, and fleets of seeds that nothing was chosen by.
//
// No two copies are placed well in each fleet, without a look at demands: the models of the highest demand meet on the
// same two replicas in one fleet of 28, and one of them alone needs more than a whole replica. That one is what copies
// of model.yaml is for: with a copy on each replica, all fleets do what is wanted.
func TestFleet(t *testing.T) {
	const seed = 1000
	mean, worst := measure(seed, 3, nil)
	t.Logf("two copies: mean %+v, worst %+v", mean, worst)
	if mean.share < 0.95 || mean.after < 0.8 {
		t.Errorf("serves %.3f of the best possible, and %.3f after demands changed; expected at least 0.95 and 0.8",
			mean.share, mean.after)
	}
	if worst.share < 0.85 || worst.after < 0.7 {
		t.Errorf("at worst serves %.3f, and %.3f after demands changed; expected at least 0.85 and 0.7", worst.share,
			worst.after)
	}
	if worst.loads > 1.5/9 {
		t.Errorf("a ninth replica has %.3f of the copies loaded, expected at most %.3f", worst.loads, 1.5/9)
	}
	if worst.short > 0 || worst.strangers > 0 {
		t.Errorf("%v models have too few copies, and %v moved as a whole; expected none", worst.short, worst.strangers)
	}
	mean, worst = measure(seed, 3, func(f *fleet) {
		most := slices.MaxFunc(f.models, func(a, b Model) int { return cmp.Compare(f.demand[a.Name], f.demand[b.Name]) })
		for i := range f.models {
			if f.models[i].Name == most.Name {
				f.models[i].Copies = fleetSize
			}
		}
	})
	t.Logf("the model of the highest demand everywhere: mean %+v, worst %+v", mean, worst)
	if worst.share < 0.95 || worst.after < 0.8 {
		t.Errorf("with one model everywhere, at worst serves %.3f, and %.3f after demands changed; expected at least 0.95 "+
			"and 0.8", worst.share, worst.after)
	}
}

// TestTightFleet has less memory than the copies need: each model has one copy at least, and about two thirds of them
// have two.
func TestTightFleet(t *testing.T) {
	mean, worst := measure(1000, 1.5, nil)
	t.Logf("mean %+v, worst %+v", mean, worst)
	if worst.share == 0 || worst.short > 45 {
		t.Errorf("%v models of %d have too few copies, and %.3f is served at worst", worst.short, fleetModels, worst.share)
	}
}
