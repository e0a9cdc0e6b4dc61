package main

import (
	"fmt"
	"path/filepath"

	"github.com/weftserve/weft/internal/onnxgraph"
)

// model is a model that is served; requests have one row.
type model struct {
	name  string
	width int // numbers in a row of the input
	file  func() []byte
}

// Sizes of the input rows of the models that answer what they are asked.
var payloads = []struct {
	name  string
	width int

	overBytes, overZeroCopy float64 // the answers that a server ought to have, over those of echoes
}{{"4 KB", 1 << 10, 0.95, 0.85}, {"64 KB", 16 << 10, 1.3, 0.75}, {"600 KB", 150 << 10, 0.95, 0.75}}

const (
	policyName  = "policy"
	networkName = "network"
	stuckName   = "stuck"
)

func identityName(width int) string { return fmt.Sprintf("identity-%d", width) }

// models returns the models of a run.
func models() []model {
	mlp := func(name, activation string, sizes ...int) model {
		return model{name, sizes[0], func() []byte { return onnxgraph.MLP(name, sizes, 1, activation, "") }}
	}
	all := []model{
		mlp(policyName, "Elu", 48, 256, 128, 12),
		mlp(networkName, "Relu", 512, 2048, 2048, 2048, 256),
	}
	for _, p := range payloads {
		all = append(all, model{identityName(p.width), p.width, func() []byte { return identity(p.width) }})
	}
	return all
}

// identity returns a model that answers its input.
func identity(width int) []byte {
	return onnxgraph.New("identity").
		Input(onnxgraph.MLPInput, onnxgraph.Float, onnxgraph.BatchDim, width).
		Node("Identity", []string{onnxgraph.MLPInput}, []string{onnxgraph.MLPOutput}).
		Output(onnxgraph.MLPOutput, onnxgraph.Float, onnxgraph.BatchDim, width).Marshal()
}

func modelPath(repository, name string) string {
	return filepath.Join(repository, name, "1", "model.onnx")
}

// stuck is the settings of a model that is busy for a second with each request, so that all others are refused.
const stuck = `synth: {base: 1s, inputs: {observation: {dtype: fp32, shape: [-1, 512]}}, outputs: {action: {dtype: fp32, shape: [-1, 4]}}}
batching: {mode: "off", max_queue: 1}
`
