package main

import (
	"fmt"
	"math"

	"github.com/weftserve/weft/internal/onnxgraph"
)

// policy is a small network of dense layers that chooses actions, with tanh after each layer, so that actions lie in
// (-1, 1). It computes in float32, as the exported model does. It is trained, run without an engine, and written as an
// ONNX file.
type policy struct {
	sizes   []int
	weights []float32   // layer after layer: the weights [inputs][outputs], then the biases [outputs]
	values  [][]float32 // scratch: the output of each layer
}

// newPolicy returns a policy with all weights zero. Sizes are the widths from the observation to the action.
func newPolicy(sizes ...int) *policy {
	p := &policy{sizes: sizes, weights: make([]float32, weightsOf(sizes...))}
	for _, width := range sizes[1:] {
		p.values = append(p.values, make([]float32, width))
	}
	return p
}

// weightsOf returns the number of weights and biases of a policy of those sizes.
func weightsOf(sizes ...int) int {
	n := 0
	for i := 1; i < len(sizes); i++ {
		n += (sizes[i-1] + 1) * sizes[i]
	}
	return n
}

// scaleOf returns a likely magnitude for each weight, given that of each observation: the one that brings every unit's
// sum to about one. The order is that of setWeights.
func scaleOf(observation []float64, sizes ...int) []float64 {
	scale := make([]float64, 0, weightsOf(sizes...))
	for i := 1; i < len(sizes); i++ {
		root := math.Sqrt(float64(sizes[i-1]))
		for in := range sizes[i-1] {
			unit := 1.0
			if i == 1 {
				unit = observation[in] //nolint:gosec // the first size is that of an observation
			}
			for range sizes[i] {
				scale = append(scale, 1/(unit*root))
			}
		}
		for range sizes[i] {
			scale = append(scale, 1/root)
		}
	}
	return scale
}

// setWeights replaces all weights and biases: layer after layer, the weights row by row (one row per input), then
// the biases. It panics unless there are exactly weightsOf of them.
func (p *policy) setWeights(weights []float64) {
	if len(weights) != len(p.weights) {
		panic(fmt.Sprintf("policy: %d weights for sizes %v, want %d", len(weights), p.sizes, len(p.weights)))
	}
	for i, w := range weights {
		p.weights[i] = float32(w)
	}
}

// act returns the action for one observation; it is valid until the next call. A policy is not safe for
// concurrent use.
func (p *policy) act(observation []float32) []float32 {
	value, rest := observation, p.weights
	for _, next := range p.values {
		width := len(next)
		matrix, bias := rest[:len(value)*width], rest[len(value)*width:][:width]
		rest = rest[len(matrix)+width:]
		copy(next, bias)
		for i, v := range value {
			for o, w := range matrix[i*width:][:width] {
				next[o] += v * w
			}
		}
		for o, sum := range next {
			next[o] = float32(math.Tanh(float64(sum)))
		}
		value = next
	}
	return value
}

// onnx returns the policy as a model file: input "observation", output "action", both [batch, width] float32.
func (p *policy) onnx(name string) []byte {
	var layers []onnxgraph.Layer
	rest := p.weights
	for i := 1; i < len(p.sizes); i++ {
		in, out := p.sizes[i-1], p.sizes[i]
		layers = append(layers, onnxgraph.Layer{
			In: in, Out: out, Weights: rest[:in*out], Bias: rest[in*out:][:out], Activation: "Tanh",
		})
		rest = rest[(in+1)*out:]
	}
	return onnxgraph.Dense(name, layers)
}
