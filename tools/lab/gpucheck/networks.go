package main

import (
	"fmt"
	"math"
	"math/rand/v2"

	"github.com/weftserve/weft/internal/onnxgraph"
)

// Tensors of the networks that are made here; they take and give fp32, with the rows in dimension 0.
const (
	inputName    = "x"
	outputName   = "y"
	inputWidth   = 64
	outputWidth  = 16
	rowsDim      = "rows"
	sizeName     = "size" // of a glutton
	hungry       = 123_456_789
	notMuch      = 16
	policyInput  = 48
	policyOutput = 12
)

// deep returns a network of square layers that all have the same weights, so that its file stays small: only its run
// time matters.
func deep(width, layers int) []byte {
	rng := rand.New(rand.NewPCG(7, 0))
	weights := func(in, out int) []float32 {
		w := make([]float32, in*out)
		for i := range w {
			w[i] = float32(rng.NormFloat64() / math.Sqrt(float64(in))) // values neither grow nor vanish
		}
		return w
	}
	g := onnxgraph.New("deep").Input(inputName, onnxgraph.Float, rowsDim, inputWidth)
	for _, m := range []struct {
		name    string
		in, out int
	}{{"first", inputWidth, width}, {"middle", width, width}, {"last", width, outputWidth}} {
		g.InitFloats(m.name, []int64{int64(m.in), int64(m.out)}, weights(m.in, m.out)...)
	}
	g.Node("MatMul", []string{inputName, "first"}, []string{"value_0"})
	for i := range layers {
		product, value := fmt.Sprintf("product_%d", i), fmt.Sprintf("value_%d", i+1)
		g.Node("MatMul", []string{fmt.Sprintf("value_%d", i), "middle"}, []string{product})
		g.Node("Tanh", []string{product}, []string{value})
	}
	g.Node("MatMul", []string{fmt.Sprintf("value_%d", layers), "last"}, []string{outputName})
	return g.Output(outputName, onnxgraph.Float, rowsDim, outputWidth).Marshal()
}

// smallPolicy returns a network of three layers, as robots have them.
func smallPolicy(name string) []byte {
	return onnxgraph.MLP(name, []int{policyInput, 256, 128, policyOutput}, 1, "Elu", "Tanh")
}

// glutton returns a model that answers its input x, and needs memory for the given number of floats where its input
// size is "hungry", for a few otherwise. Size has no rows, so that requests of different size never share an execution.
func glutton(floats int64) []byte {
	g := onnxgraph.New("glutton").Input(inputName, onnxgraph.Float, rowsDim, 4).Input(sizeName, onnxgraph.Int64)
	g.InitInt64s("hungry", nil, hungry).InitInt64s("much", nil, floats).InitInt64s("little", nil,
		notMuch).InitInt64s("list", []int64{1}, 1)
	g.Node("Equal", []string{sizeName, "hungry"}, []string{"is_hungry"})
	g.Node("Where", []string{"is_hungry", "much", "little"}, []string{"floats"})
	g.Node("Reshape", []string{"floats", "list"}, []string{"shape"})
	g.Node("ConstantOfShape", []string{"shape"}, []string{"meal"}) // of zeros
	g.Node("ReduceSum", []string{"meal"}, []string{"nothing"}, onnxgraph.IntAttr("keepdims", 0))
	g.Node("Add", []string{inputName, "nothing"}, []string{outputName})
	return g.Output(outputName, onnxgraph.Float, rowsDim, 4).Marshal()
}
