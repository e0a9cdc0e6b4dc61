package main

import (
	"encoding/binary"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"

	"github.com/weftserve/weft/proto/gen/onnx"
)

// read returns the policy in a model file that policy.onnx wrote: a matrix opens a layer, a vector holds its biases. It
// trusts that the operators are those of that package.
func read(t *testing.T, model []byte) *policy {
	t.Helper()
	var m onnx.ModelProto
	if err := proto.Unmarshal(model, &m); err != nil {
		t.Fatal(err)
	}
	var sizes []int
	var weights []float64
	for _, tensor := range m.GetGraph().GetInitializer() {
		if dims := tensor.GetDims(); len(dims) == 2 {
			sizes = append(sizes[:max(len(sizes)-1, 0)], int(dims[0]), int(dims[1]))
		}
		for raw := tensor.GetRawData(); len(raw) >= 4; raw = raw[4:] {
			weights = append(weights, float64(math.Float32frombits(binary.LittleEndian.Uint32(raw))))
		}
	}
	if len(sizes) == 0 || len(weights) != weightsOf(sizes...) {
		t.Fatalf("%d weights do not make a network of sizes %v", len(weights), sizes)
	}
	p := newPolicy(sizes...)
	p.setWeights(weights)
	return p
}

// TestWrittenPoliciesAct as they did before they were written.
func TestWrittenPoliciesAct(t *testing.T) {
	sizes := []int{7, 16, 3, 2}
	rng := rand.New(rand.NewPCG(1, 0))
	weights := make([]float64, weightsOf(sizes...))
	for i := range weights {
		weights[i] = rng.NormFloat64()
	}
	written := newPolicy(sizes...)
	written.setWeights(weights)
	observation := []float32{1, -2, 0.5, 0.1, 3, 0, -1}
	if diff := cmp.Diff(written.act(observation), read(t, written.onnx("p")).act(observation)); diff != "" {
		t.Errorf("actions (-want +got):\n%s", diff)
	}
}

func TestAct(t *testing.T) {
	p := newPolicy(2, 2, 1)
	p.setWeights([]float64{
		1, 2, // from the first observation to both units
		3, 4, // from the second
		0.5, -0.5, // biases
		1, -1, // from both units to the action
		0.25,
	})
	x, y := 0.1, -0.2
	want := math.Tanh(math.Tanh(x+3*y+0.5) - math.Tanh(2*x+4*y-0.5) + 0.25)
	if got := p.act([]float32{float32(x), float32(y)})[0]; math.Abs(float64(got)-want) > 1e-6 {
		t.Errorf("action %v, want %v", got, want)
	}
}

func TestScaleGivesUnitSums(t *testing.T) {
	sizes := []int{2, 3, 1}
	typical := []float64{10, 0.1}
	scale := scaleOf(typical, sizes...)
	if len(scale) != weightsOf(sizes...) {
		t.Fatalf("%d scales for %d weights", len(scale), weightsOf(sizes...))
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
