package main

import (
	"encoding/binary"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/weftserve/weft/examples/internal/policy"
)

// read returns the policy in a model file that policy.ONNX wrote: a matrix opens a layer, a vector holds its biases. It
// trusts that the operators are those of that package.
func read(t *testing.T, model []byte) *policy.Policy {
	t.Helper()
	const graphField, initializerField, dimsField, rawField = 7, 5, 1, 9 // of ModelProto, GraphProto, TensorProto
	var sizes []int
	var weights []float64
	each(t, model, graphField, func(graph []byte, _ uint64) {
		each(t, graph, initializerField, func(tensor []byte, _ uint64) {
			var dims []int
			each(t, tensor, dimsField, func(_ []byte, dim uint64) { dims = append(dims, int(dim)) })
			if len(dims) == 2 {
				sizes = append(sizes[:max(len(sizes)-1, 0)], dims...)
			}
			each(t, tensor, rawField, func(raw []byte, _ uint64) {
				for ; len(raw) >= 4; raw = raw[4:] {
					weights = append(weights, float64(math.Float32frombits(binary.LittleEndian.Uint32(raw))))
				}
			})
		})
	})
	if len(sizes) == 0 || len(weights) != policy.Count(sizes...) {
		t.Fatalf("%d weights do not make a network of sizes %v", len(weights), sizes)
	}
	p := policy.New(sizes...)
	p.SetWeights(weights)
	return p
}

// each calls visit with each value of one field of a message: bytes or a number.
func each(t *testing.T, message []byte, field protowire.Number, visit func(value []byte, number uint64)) {
	t.Helper()
	for len(message) > 0 {
		num, kind, n := protowire.ConsumeTag(message)
		size := protowire.ConsumeFieldValue(num, kind, message[max(n, 0):])
		if n < 0 || size < 0 {
			t.Fatal("not a model file")
		}
		if num == field {
			value, _ := protowire.ConsumeBytes(message[n:])
			number, _ := protowire.ConsumeVarint(message[n:])
			visit(value, number)
		}
		message = message[n+size:]
	}
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
