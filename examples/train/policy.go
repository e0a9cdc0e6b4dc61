package main

import (
	"fmt"
	"math"
	"slices"

	"github.com/weftserve/weft/internal/onnxgraph"
)

// policy is a small network of dense layers that chooses actions, with tanh after each layer, so that actions lie in
// (-1, 1). It computes in float32, as the exported model does. It is trained, run without an engine, and written as an
// ONNX file.
type policy struct {
	memory
	observed int         // values of an observation
	sizes    []int       // the widths of the dense layers
	weights  []float32   // of the cells, then layer after layer: [inputs][outputs], and the biases [outputs]
	values   [][]float32 // scratch: the output of each layer
	state    []float32   // what the first layer takes

	seen, gates, candidate []float32 // scratch of the cells: their input, and the outputs of their layers
}

// memory is what the dense layers take instead of the observation.
type memory struct {
	frames int // so many observations, the latest last, if there are more than 1
	cells  int // the output of a GRU with so many cells, if there are any
}

// layers returns the widths of the dense layers, given those from the observation to the action.
func (m memory) layers(sizes []int) []int {
	first := max(m.frames, 1) * sizes[0]
	if m.cells > 0 {
		first = m.cells
	}
	return append([]int{first}, sizes[1:]...)
}

// cellWeights returns the number of weights and biases of the cells: a layer of two gates, and one of the candidate.
func (m memory) cellWeights(observation int) int { return 3 * m.cells * (observation + m.cells + 1) }

// scaleOf is scaleOf for a policy with this memory.
func (m memory) scaleOf(observation []float64, sizes []int) (scale []float64) {
	first := slices.Repeat(observation, max(m.frames, 1))
	if m.cells > 0 {
		first = slices.Repeat([]float64{1}, m.cells)
		seen := slices.Concat(observation, first)
		scale = append(scaleOf(seen, len(seen), 2*m.cells), scaleOf(seen, len(seen), m.cells)...)
	}
	return append(scale, scaleOf(first, m.layers(sizes)...)...)
}

// newPolicy returns a policy with all weights zero. Sizes are the widths from the observation to the action.
func newPolicy(m memory, sizes ...int) *policy {
	layers := m.layers(sizes)
	p := &policy{
		memory: m, observed: sizes[0], sizes: layers, state: make([]float32, layers[0]),
		weights: make([]float32, m.cellWeights(sizes[0])+weightsOf(layers...)),
		gates:   make([]float32, 2*m.cells), candidate: make([]float32, m.cells),
	}
	for _, width := range layers[1:] {
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

// setWeights replaces all weights and biases: of the gates and the candidate of the cells, then layer after layer; of
// each the weights row by row (one row per input), then the biases. It panics unless they are as many as before.
func (p *policy) setWeights(weights []float64) {
	if len(weights) != len(p.weights) {
		panic(fmt.Sprintf("policy: %d weights for sizes %v, want %d", len(weights), p.sizes, len(p.weights)))
	}
	for i, w := range weights {
		p.weights[i] = float32(w)
	}
}

// begin forgets what was observed.
func (p *policy) begin() { clear(p.state) }

// act returns the action for the next observation of an episode; it is valid until the next call. A policy is not safe
// for concurrent use.
func (p *policy) act(observation []float32) []float32 {
	value, rest := p.state, p.weights
	if p.cells > 0 {
		rest = p.stepCells(observation)
	} else {
		copy(value, value[len(observation):])
		copy(value[len(value)-len(observation):], observation)
	}
	for _, next := range p.values {
		rest = dense(next, value, rest, math.Tanh)
		value = next
	}
	return value
}

// stepCells has the cells take an observation, and returns the weights behind theirs: a gated recurrent unit (K. Cho et
// al., "Learning phrase representations using RNN encoder-decoder for statistical machine translation", EMNLP 2014).
func (p *policy) stepCells(observation []float32) []float32 {
	n, h := p.cells, p.state
	p.seen = append(append(p.seen[:0], observation...), h...)
	rest := dense(p.gates, p.seen, p.weights, sigmoid)
	for i, reset := range p.gates[n:] {
		p.seen[len(observation)+i] *= reset
	}
	rest = dense(p.candidate, p.seen, rest, math.Tanh)
	for i, update := range p.gates[:n] {
		h[i] = p.candidate[i] + update*(h[i]-p.candidate[i])
	}
	return rest
}

func sigmoid(v float64) float64 { return 1 / (1 + math.Exp(-v)) }

// dense computes a layer, whose weights come first, and returns the rest of them.
func dense(out, in, weights []float32, activate func(float64) float64) []float32 {
	width := len(out)
	matrix, bias := weights[:len(in)*width], weights[len(in)*width:][:width]
	copy(out, bias)
	for i, v := range in {
		for o, w := range matrix[i*width:][:width] {
			out[o] += v * w
		}
	}
	for o, sum := range out {
		out[o] = float32(activate(float64(sum)))
	}
	return weights[len(matrix)+width:]
}

// onnx returns the policy as a model file: input "observation", output "action", both [batch, width] float32. One with
// cells has their state as input "h" and output "hn"; the observation of one that takes several is all of them.
func (p *policy) onnx(name string) []byte {
	var layers []onnxgraph.Layer
	rest := p.weights[p.cellWeights(p.observed):]
	for i := 1; i < len(p.sizes); i++ {
		in, out := p.sizes[i-1], p.sizes[i]
		layers = append(layers, onnxgraph.Layer{
			In: in, Out: out, Weights: rest[:in*out], Bias: rest[in*out:][:out], Activation: "Tanh",
		})
		rest = rest[(in+1)*out:]
	}
	if p.cells == 0 {
		return onnxgraph.Dense(name, layers)
	}
	g := onnxgraph.New(name).Input(onnxgraph.MLPInput, onnxgraph.Float, onnxgraph.BatchDim, p.observed)
	g.Input("h", onnxgraph.Float, onnxgraph.BatchDim, p.cells)
	p.addCells(g)
	return g.Dense("hn", layers).Output("hn", onnxgraph.Float, onnxgraph.BatchDim, p.cells).Marshal()
}

// addCells adds what stepCells computes. The operator GRU would need cuDNN on a GPU.
func (p *policy) addCells(g *onnxgraph.Graph) {
	rest := p.weights
	layer := func(in, out string, width int, activation string) {
		size := (p.observed + p.cells) * width
		g.InitFloats(out+"_w", []int64{int64(p.observed + p.cells), int64(width)}, rest[:size]...)
		g.InitFloats(out+"_b", []int64{int64(width)}, rest[size:][:width]...)
		rest = rest[size+width:]
		g.Node("Concat", []string{onnxgraph.MLPInput, in}, []string{out + "_in"}, onnxgraph.IntAttr("axis", 1))
		g.Node("Gemm", []string{out + "_in", out + "_w", out + "_b"}, []string{out + "_sum"})
		g.Node(activation, []string{out + "_sum"}, []string{out})
	}
	layer("h", "gates", 2*p.cells, "Sigmoid")
	g.Node("Split", []string{"gates"}, []string{"update", "reset"}, onnxgraph.IntAttr("axis", 1))
	g.Node("Mul", []string{"reset", "h"}, []string{"kept"})
	layer("kept", "candidate", p.cells, "Tanh")
	g.Node("Sub", []string{"h", "candidate"}, []string{"change"})
	g.Node("Mul", []string{"update", "change"}, []string{"held"})
	g.Node("Add", []string{"candidate", "held"}, []string{"hn"})
}
