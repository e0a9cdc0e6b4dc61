package sim

import (
	"fmt"
	"testing"
	"time"
)

// processors returns the server's scheduler on a device of which each lane has a processor of its own.
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
			seen := scene.Play(&p, Effort{Span: 10 * time.Second, Seeds: 1})
			t.Logf("%s: %d processors: %.3f of what is watched is on time", name, n, seen.Watched)
			if seen.Watched < mustInShare {
				t.Errorf("%s: %d processors: %.3f of what is watched is on time, must be %.2f", name, n, seen.Watched,
					mustInShare)
			}
		}
	}
}
