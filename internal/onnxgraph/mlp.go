package onnxgraph

import (
	"fmt"
	"math"
	"math/rand/v2"
)

// Names of the tensors of a network written by [Dense] or [MLP].
const (
	MLPInput  = "observation"
	MLPOutput = "action"
	BatchDim  = "batch"
)

// Layer is one dense layer: activation(x·Weights + Bias) for a row x of In values.
type Layer struct {
	In, Out    int
	Weights    []float32 // In×Out, row-major: the weight of input i on output o is Weights[i*Out+o]
	Bias       []float32 // Out
	Activation string    // an operator of one input, such as "Tanh", "Elu" or "Relu"; empty is none
}

// Dense returns a model file of dense layers: input "observation" [batch, layers[0].In] float32, output
// "action" [batch, last Out] float32, with a dynamic dimension named "batch". It panics where layers do not
// fit together.
func Dense(name string, layers []Layer) []byte {
	if len(layers) == 0 {
		panic("onnxgraph: a dense network needs at least one layer")
	}
	return New(name).Input(MLPInput, Float, BatchDim, layers[0].In).Dense(MLPInput, layers).Marshal()
}

// Dense adds dense layers, that take the rows of a value, and the output "action" of
// the last one. It panics where layers do not fit together.
func (g *Graph) Dense(value string, layers []Layer) *Graph {
	width := layers[0].In
	for i, l := range layers {
		if l.In != width || len(l.Weights) != l.In*l.Out || len(l.Bias) != l.Out {
			panic(fmt.Sprintf("onnxgraph: layer %d takes %d of %d values and has %d weights and %d biases for %d×%d",
				i, l.In, width, len(l.Weights), len(l.Bias), l.In, l.Out))
		}
		// The last layer gives the output its name; the others have names of their own.
		out := MLPOutput
		if i < len(layers)-1 {
			out = fmt.Sprintf("hidden_%d", i)
		}
		sum := out
		if l.Activation != "" {
			sum = fmt.Sprintf("sum_%d", i)
		}
		weights, bias := fmt.Sprintf("weights_%d", i), fmt.Sprintf("bias_%d", i)
		g.InitFloats(weights, []int64{int64(l.In), int64(l.Out)}, l.Weights...)
		g.InitFloats(bias, []int64{int64(l.Out)}, l.Bias...)
		g.Node("Gemm", []string{value, weights, bias}, []string{sum})
		if l.Activation != "" {
			g.Node(l.Activation, []string{sum}, []string{out})
		}
		value, width = out, l.Out
	}
	return g.Output(MLPOutput, Float, BatchDim, width)
}

// MLP returns a model file of random dense layers of the given widths, such as 48, 256, 128, 12, in the form
// of [Dense]. Activation follows each layer but the last, output the last; empty is none. The weights are
// normal with variance 1/inputs, so that values neither grow nor vanish from layer to layer. Fewer than two
// widths are a mistake in the calling code and panic.
func MLP(name string, sizes []int, seed uint64, activation, output string) []byte {
	if len(sizes) < 2 {
		panic(fmt.Sprintf("onnxgraph: MLP %q needs at least an input and an output width, not %v", name, sizes))
	}
	rng := rand.New(rand.NewPCG(seed, 0))
	layers := make([]Layer, len(sizes)-1)
	for i := range layers {
		l := Layer{In: sizes[i], Out: sizes[i+1], Activation: activation}
		if i == len(layers)-1 {
			l.Activation = output
		}
		l.Weights = make([]float32, l.In*l.Out)
		for j := range l.Weights {
			// A sum of n such products has the variance of one input.
			l.Weights[j] = float32(rng.NormFloat64() / math.Sqrt(float64(l.In)))
		}
		l.Bias = make([]float32, l.Out)
		for j := range l.Bias {
			// Small biases, so that rows of zeros have answers that differ from zero, and not by much.
			l.Bias[j] = float32(0.1 * rng.NormFloat64())
		}
		layers[i] = l
	}
	return Dense(name, layers)
}
