package policy

import (
	"math"
	"testing"
)

func TestAct(t *testing.T) {
	p := New(2, 2, 1)
	p.SetWeights([]float64{
		1, 2, // from the first observation to both units
		3, 4, // from the second
		0.5, -0.5, // biases
		1, -1, // from both units to the action
		0.25,
	})
	x, y := 0.1, -0.2
	want := math.Tanh(math.Tanh(x+3*y+0.5) - math.Tanh(2*x+4*y-0.5) + 0.25)
	if got := p.Act([]float32{float32(x), float32(y)})[0]; math.Abs(float64(got)-want) > 1e-6 {
		t.Errorf("action %v, want %v", got, want)
	}
}

func TestScaleGivesUnitSums(t *testing.T) {
	sizes := []int{2, 3, 1}
	typical := []float64{10, 0.1}
	scale := Scale(typical, sizes...)
	if len(scale) != Count(sizes...) {
		t.Fatalf("%d scales for %d weights", len(scale), Count(sizes...))
	}
	// The variance of a hidden unit's sum is that of its two weights times the squared observations.
	variance := 0.0
	for in, v := range typical {
		variance += scale[in*3] * scale[in*3] * v * v
	}
	if math.Abs(variance-1) > 1e-9 {
		t.Errorf("variance %v, want 1", variance)
	}
}
