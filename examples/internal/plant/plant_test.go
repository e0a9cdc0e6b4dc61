package plant

import (
	"strings"
	"testing"

	"github.com/weftserve/weft/examples/cartpole"
	"github.com/weftserve/weft/examples/hopper"
)

func TestKindsDescribeTheirMachines(t *testing.T) {
	for _, k := range Kinds() {
		machine := k.New()
		if got := len(machine.Reset(1)); got != k.ObservationSize || len(k.Typical) != k.ObservationSize {
			t.Errorf("%s: %d observations with %d magnitudes, want %d", k.Name, got, len(k.Typical), k.ObservationSize)
		}
		steps := 0
		sum := Return(machine, 1, func(observation []float32) []float32 {
			steps++
			return make([]float32, k.ActionSize)
		})
		if steps < 2 || steps > k.MaxSteps || sum <= 0 || sum > float64(steps) {
			t.Errorf("%s: return %v after %d steps, want between 0 and one per step", k.Name, sum, steps)
		}
	}
}

// TestPeriods: the commands' default is 50 Hz.
func TestPeriods(t *testing.T) {
	if cartpole.Period != 20e-3 || hopper.Period != 20e-3 {
		t.Errorf("periods of %v and %v s, want 0.02", cartpole.Period, hopper.Period)
	}
}

func TestLookupListsWhatExists(t *testing.T) {
	if k, err := Lookup("hopper"); err != nil || k.Name != "hopper" {
		t.Errorf("Lookup(hopper) = %q, %v", k.Name, err)
	}
	if _, err := Lookup("walker"); err == nil || !strings.Contains(err.Error(), "cartpole, hopper") {
		t.Errorf("error %v does not list the machines", err)
	}
}
