package main

import (
	"encoding/binary"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"

	"github.com/weftserve/weft/examples/internal/policy"
	"github.com/weftserve/weft/proto/gen/onnx"
)

// read returns the policy in a model file that policy.ONNX wrote: a matrix opens a layer, a vector holds its biases. It
// trusts that the operators are those of that package.
func read(t *testing.T, model []byte) *policy.Policy {
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
	if len(sizes) == 0 || len(weights) != policy.Count(sizes...) {
		t.Fatalf("%d weights do not make a network of sizes %v", len(weights), sizes)
	}
	p := policy.New(sizes...)
	p.SetWeights(weights)
	return p
}

// TestWrittenPoliciesAct as they did before they were written.
func TestWrittenPoliciesAct(t *testing.T) {
	sizes := []int{7, 16, 3, 2}
	rng := rand.New(rand.NewPCG(1, 0))
	weights := make([]float64, policy.Count(sizes...))
	for i := range weights {
		weights[i] = rng.NormFloat64()
	}
	written := policy.New(sizes...)
	written.SetWeights(weights)
	observation := []float32{1, -2, 0.5, 0.1, 3, 0, -1}
	if diff := cmp.Diff(written.Act(observation), read(t, written.ONNX("p")).Act(observation)); diff != "" {
		t.Errorf("actions (-want +got):\n%s", diff)
	}
}
