package sim

import (
	"fmt"
	"testing"
	"time"
)

// processors returns the server's scheduler on a device whose lanes each have a processor of their own.
func processors(n int) Maker {
	m := Core(fmt.Sprintf("%d processors", n), CoreOptions{})
	m.Lanes, m.Overlap = func(int) int { return n }, float64(n)
	return m
}

// TestProcessors: a device of several processors carries as many times the load of one, and protects its flows from
// each other at as many times the load.
func TestProcessors(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes 4 seconds")
	}
	skipUnderRace(t)
	carried := func(w *Workload, n int) float64 {
		load, _ := G99(w, &Family{Members: []Maker{processors(n)}}, Quick)
		return load
	}
	for _, name := range []string{"single", "het30", "bimodal", "blocker"} {
		w := inSuite(name)
		w.Again = nil
		one := carried(w, 1)
		for _, n := range []int{2, 4} {
			ratio := carried(w, n) / one
			t.Logf("%s: %d processors carry %.2f times the load of one", name, n, ratio)
			if ratio < 0.95*float64(n) {
				t.Errorf("%s: %d processors carry %.2f times the load of one", name, n, ratio)
			}
		}
	}
	for _, name := range []string{"aggressor ×10", "one shape", "trickle"} {
		scene := sceneOf(t, name)
		load := scene.Load
		for _, n := range []int{2, 4} {
			p := processors(n)
			scene.Load = load * float64(n)
			seen := scene.Play(&p, Effort{Span: 10 * time.Second, Seeds: 4})
			t.Logf("%s: %d processors: %.3f of what is watched is on time", name, n, seen.Watched)
			if seen.Watched < mustInShare {
				t.Errorf("%s: %d processors: %.3f of what is watched is on time, must be %.2f", name, n, seen.Watched,
					mustInShare)
			}
		}
	}
}

// TestShortBesideLong: a row of a heavy model holds a processor for five times the time that the callers of a light one
// have. While the others suffice for the heavy one, one processor is not for it.
func TestShortBesideLong(t *testing.T) {
	skipUnderRace(t)
	for _, c := range []struct {
		lanes int
		load  float64 // of the processors, by the heavy model
		light float64 // on time, at least
		heavy float64
	}{
		{2, 0.3, 0.99, 0.99},
		{2, 0.45, 0.99, 0.98},
		{4, 0.5, 0.99, 0.99},
		{4, 0.7, 0.99, 0.99},
	} {
		w := Workload{
			Models:   []Model{linear("heavy", 99, 1, 2000, 1), linear("light", 1, 0.01, 20, 1)},
			Arrivals: []Process{{}},
		}
		w.Models[0].MaxBatch = 1
		w.Models[0].Rate, w.Models[1].Rate = 10*c.load*float64(c.lanes), 50
		p := processors(c.lanes)
		var heavy, light Tally
		for seed := uint64(1); seed <= 3; seed++ {
			r := w.Play(&p, 1, 100*time.Second, seed)
			heavy.add(&r.Flows[0])
			light.add(&r.Flows[1])
		}
		t.Logf("%d processors, %.2f of them by the heavy one: light %.4f, heavy %.4f", c.lanes, c.load, light.Share(),
			heavy.Share())
		if light.Share() < c.light || heavy.Share() < c.heavy {
			t.Errorf("%d processors, %.2f of them by the heavy one: light %.4f, heavy %.4f on time", c.lanes, c.load,
				light.Share(), heavy.Share())
		}
	}
}

// TestLongBesideAShortFlood: that a processor is kept for the short must not starve the long. The heavy model is within
// its share, and a flood of short batches takes one processor after the other.
func TestLongBesideAShortFlood(t *testing.T) {
	skipUnderRace(t)
	w := Workload{
		Models: []Model{
			linear("heavy", 99, 1, 2000, 1), linear("light", 1, 0.01, 20, 1), linear("flood", 1, 0.5, 1000, 1),
		},
		Arrivals: []Process{{}},
	}
	w.Models[0].MaxBatch, w.Models[2].MaxBatch = 1, 8
	w.Models[0].Weight = 4
	w.Models[0].Rate, w.Models[1].Rate, w.Models[2].Rate = 9, 50, 3*2*8/0.005
	p := processors(2)
	r := w.Play(&p, 1, 30*time.Second, 1)
	if heavy := r.Flows[0].Share(); heavy < 0.99 {
		t.Errorf("%.3f of the heavy model's requests are on time, want 0.99", heavy)
	}
}
