package plant

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// idle are the actions of a controller that does nothing.
var idle = map[string][]float32{"cartpole": {0}, "positions": {0}, "hopper": {0, -1}}

// TestMachinesFailWithoutControl, and rewards are in [0, 1], as they are described.
func TestMachinesFailWithoutControl(t *testing.T) {
	for _, k := range Kinds() {
		machine := k.New()
		for seed := range uint64(20) {
			if got := len(machine.Reset(seed)); got != k.ObservationSize || len(k.Typical) != got ||
				len(idle[k.Name]) != k.ActionSize {
				t.Fatalf("%s: %d observations with %d magnitudes, want %d", k.Name, got, len(k.Typical), k.ObservationSize)
			}
			reward, done, steps := 0.0, false, 0
			for ; !done; steps++ {
				if _, reward, done = machine.Step(idle[k.Name]); reward < 0 || reward > 1 {
					t.Fatalf("%s, seed %d: reward %v is outside [0, 1]", k.Name, seed, reward)
				}
			}
			if reward != 0 || steps < 2 || steps >= k.MaxSteps {
				t.Errorf("%s, seed %d: failing pays %v after %d steps without control", k.Name, seed, reward, steps)
			}
		}
	}
}

func TestSeedDecidesTheEpisode(t *testing.T) {
	for _, k := range Kinds() {
		play := func(seed uint64) []float32 {
			machine := k.New()
			trace := slices.Clone(machine.Reset(seed))
			for range 20 {
				o, _, _ := machine.Step([]float32{0.1, 0})
				trace = append(trace, o...)
			}
			return trace
		}
		if diff := cmp.Diff(play(3), play(3)); diff != "" {
			t.Errorf("%s: the same seed played differently:\n%s", k.Name, diff)
		}
		if cmp.Equal(play(3), play(4)) {
			t.Errorf("%s: another seed played the same episode", k.Name)
		}
	}
}

func TestActionsAreClamped(t *testing.T) {
	for _, k := range Kinds() {
		strong, full := k.New(), k.New()
		strong.Reset(1)
		full.Reset(1)
		for range 20 {
			a, _, _ := strong.Step([]float32{50, 50})
			b, _, _ := full.Step([]float32{1, 1})
			if diff := cmp.Diff(b, a); diff != "" {
				t.Fatalf("%s: an action of 50 did not act as 1 (-want +got):\n%s", k.Name, diff)
			}
		}
	}
}

func TestLookupListsWhatExists(t *testing.T) {
	if k, err := Lookup("hopper"); err != nil || k.Name != "hopper" {
		t.Errorf("Lookup(hopper) = %q, %v", k.Name, err)
	}
	if _, err := Lookup("walker"); err == nil || !strings.Contains(err.Error(), "cartpole, positions, hopper") {
		t.Errorf("error %v does not list the machines", err)
	}
}
