package main

import (
	"encoding/binary"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"

	"github.com/weftserve/weft/proto/gen/onnx"
)

// read returns the policy with that memory in a model file that policy.onnx wrote. It trusts that
// the operators are those of that package.
func read(t *testing.T, m memory, model []byte) *policy {
	t.Helper()
	var file onnx.ModelProto
	if err := proto.Unmarshal(model, &file); err != nil {
		t.Fatal(err)
	}
	shape := file.GetGraph().GetInput()[0].GetType().GetTensorType().GetShape().GetDim()
	sizes := []int{int(shape[1].GetDimValue()) / max(m.frames, 1)}
	var weights []float64
	for _, tensor := range file.GetGraph().GetInitializer() {
		if strings.HasPrefix(tensor.GetName(), "weights_") {
			sizes = append(sizes, int(tensor.GetDims()[1]))
		}
		for raw := tensor.GetRawData(); len(raw) >= 4; raw = raw[4:] {
			weights = append(weights, float64(math.Float32frombits(binary.LittleEndian.Uint32(raw))))
		}
	}
	p := newPolicy(m, sizes...)
	p.setWeights(weights)
	return p
}

// memories are those of the policies.
var memories = []memory{{}, {frames: 3}, {cells: 5}}

// TestWrittenPoliciesAct as they did before they were written, and anew in each episode.
func TestWrittenPoliciesAct(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 0))
	for _, m := range memories {
		written := newPolicy(m, 7, 16, 3, 2)
		weights := make([]float64, len(written.weights))
		for i := range weights {
			weights[i] = rng.NormFloat64()
		}
		written.setWeights(weights)
		other := read(t, m, written.onnx("p"))
		var first []float32
		for range 4 {
			observation := []float32{1, -2, 0.5, 0.1, 3, 0, -1}
			want := slices.Clone(written.act(observation))
			if diff := cmp.Diff(want, other.act(observation)); diff != "" {
				t.Errorf("%+v: actions (-want +got):\n%s", m, diff)
			}
			if first == nil {
				first = want
			} else if cmp.Equal(first, want) != (m == memory{}) {
				t.Errorf("%+v: first %v, then %v", m, first, want)
			}
		}
		if written.begin(); !cmp.Equal(first, written.act([]float32{1, -2, 0.5, 0.1, 3, 0, -1})) {
			t.Errorf("%+v: another episode does not begin anew", m)
		}
	}
}

func TestAct(t *testing.T) {
	p := newPolicy(memory{}, 2, 2, 1)
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
	for _, m := range memories {
		if got, want := len(m.scaleOf(typical, sizes)), len(newPolicy(m, sizes...).weights); got != want {
			t.Errorf("%+v: %d scales for %d weights", m, got, want)
		}
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
