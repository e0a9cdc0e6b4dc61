package sim

import (
	"slices"
	"testing"
	"time"

	"github.com/weftserve/weft/sharedsched"
)

// smallPolicy is a model whose execution costs what that of a network of 48-256-128-12 does on a core, asked for
// load times as much as it can do. Its requests are of identities with these parts of them.
func smallPolicy(load float64, slo time.Duration, identities ...float64) Workload {
	models := []Model{{
		Name: "policy", Base: 17 * time.Microsecond, PerRow: 1500 * time.Nanosecond, MaxBatch: 64, SLO: slo, Rate: 1,
		Identities: identities,
	}}
	toCapacity(models)
	models[0].Rate *= load
	return Workload{Name: "identities", Models: models, Arrivals: []Process{{}}, Device: TypicalDevice}
}

// TestWhatIdentitiesCost plays a model whose requests are of more and more identities. Were a batch to have rows of one
// only, each would wait for the turns of all.
func TestWhatIdentitiesCost(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes seconds")
	}
	skipUnderRace(t)
	ours := Core("ours", CoreOptions{})
	apart := Core("apart", CoreOptions{Config: func(c *sharedsched.Config) { c.Variant.NoCompany = true }})
	for _, load := range []float64{0.9, 1.2} {
		play := func(who *Maker, n int) (onTime float64, median time.Duration) {
			w := smallPolicy(load, 2*time.Millisecond, slices.Repeat([]float64{1}, n)...)
			r := w.Play(who, 1, time.Second/2, 1)
			sum := r.Total()
			t.Logf("load %.1f, %3d identities, %-5s: %.3f on time, %.1f rows a batch, half within %v, 99 %% within %v",
				load, n, who.Name, sum.Share(), float64(r.Rows)/float64(r.Batches),
				r.Latency(0.5).Round(time.Microsecond), r.Latency(0.99).Round(time.Microsecond))
			return sum.Share(), r.Latency(0.5)
		}
		alone, least := play(&ours, 0)
		for _, n := range []int{1, 4, 16, 64} {
			onTime, median := play(&ours, n)
			lost, later := play(&apart, n)
			if onTime < alone-0.02 || load < 1 && median > least*11/10 {
				t.Errorf("load %.1f: %.3f of the requests of %d identities are on time, half of them within %v; of nobody who "+
					"is known %.3f, %v", load, onTime, n, median, alone, least)
			}
			if n == 64 && (lost > onTime-0.1 || load < 1 && later < 4*median) {
				t.Errorf("load %.1f: apart %.3f are on time, half of them within %v: this proves nothing", load, lost, later)
			}
		}
	}
}

// TestFloodOfOneIdentity compares what an identity gets that asks for a fifth of what the device can do, of the same
// version as another that asks for three times as much, with what it gets alone.
func TestFloodOfOneIdentity(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes seconds")
	}
	skipUnderRace(t)
	const modest, burst = 0.2, 150 * time.Millisecond // until then a flood may be one
	for _, slo := range []time.Duration{2 * time.Millisecond, 20 * time.Millisecond} {
		play := func(flood float64, known bool) (onTime float64, late time.Duration) {
			w := smallPolicy(modest+flood, slo, modest, flood)
			all := w.Requests(1, time.Second/2, 3)
			of := slices.Clone(all)
			if !known {
				for i := range all {
					all[i].Identity = 0
				}
			}
			ours := Core("ours", CoreOptions{})
			w.run(&ours, all, time.Second/2, 3, nil)
			var took []float64
			asked := 0
			for i := range all {
				if of[i].Identity != 1 || of[i].Arrival < Time(burst) {
					continue
				}
				if asked++; all[i].Fate == OnTime {
					took = append(took, float64(all[i].Finish-all[i].Arrival))
				}
			}
			onTime, late = float64(len(took))/float64(asked), time.Duration(quantile(took, 0.99))
			t.Logf("%v, flood %.1f, known %v: %.4f on time, 99 %% within %v", slo, flood, known, onTime, late)
			return onTime, late
		}
		alone, late := play(1e-9, true)
		beside, later := play(3, true)
		if full := 113 * time.Microsecond; beside < alone-0.001 || later > late+2*full { // the one that runs, and its own

			t.Errorf("beside a flood %.4f are on time, 99 %% within %v; alone %.4f, %v", beside, later, alone, late)
		}
		if unknown, _ := play(3, false); unknown > 0.9 {
			t.Errorf("%.4f are on time where nobody is known: this proves nothing", unknown)
		}
	}
}
