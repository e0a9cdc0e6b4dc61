package policy

import (
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func random(t *testing.T, sizes ...int) *Policy {
	t.Helper()
	rng := rand.New(rand.NewPCG(1, 0))
	weights := make([]float64, Count(sizes...))
	for i := range weights {
		weights[i] = rng.NormFloat64()
	}
	p := New(sizes...)
	p.SetWeights(weights)
	return p
}

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

func TestReadReturnsWhatWasWritten(t *testing.T) {
	written := random(t, 7, 16, 3, 2)
	read, err := Read(written.ONNX("p"))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(written.sizes, read.sizes); diff != "" {
		t.Fatalf("sizes (-want +got):\n%s", diff)
	}
	observation := []float32{1, -2, 0.5, 0.1, 3, 0, -1}
	if diff := cmp.Diff(written.Act(observation), read.Act(observation)); diff != "" {
		t.Errorf("actions (-want +got):\n%s", diff)
	}
}

func TestReadRefusesOtherFiles(t *testing.T) {
	whole := random(t, 4, 2, 1).ONNX("p")
	for name, file := range map[string][]byte{
		"empty":     {},
		"text":      []byte("version https://git-lfs.github.com/spec/v1\n"),
		"cut short": whole[:len(whole)/2],
	} {
		if _, err := Read(file); err == nil || !strings.HasPrefix(err.Error(), "policy: ") {
			t.Errorf("%s: error %v, want one of this package", name, err)
		}
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
