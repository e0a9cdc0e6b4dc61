package host_test

import (
	"context"
	"testing"

	"github.com/weftserve/weft/internal/onnxgraph"
	"github.com/weftserve/weft/runtime/engine"
	"github.com/weftserve/weft/runtime/modelrepo"
)

// BenchmarkSteps compares a pipeline of two steps that run by themselves with two calls, of models that take no time:
// the pipeline may add little to what both cost.
func BenchmarkSteps(b *testing.B) {
	const twice = `
joined: false
steps:
- {name: a, model: m0, version: 1, inputs: {observation: x}}
- {name: b, model: m1, version: 1, inputs: {observation: a.action}}
outputs: {y: b.action}
`
	w := newWorld(b, 1)
	policy := onnxModel(b, onnxgraph.MLP("policy", []int{1, 256, 128, 1}, 7, "Elu", "Tanh"))
	onnxHost(b, modelrepo.Listing{}) // sets ONNX Runtime up
	for _, name := range []string{"m0", "m1"} {
		w.add(name, 1, func(context.Context) (engine.Opened, error) {
			o, err := openONNX(b.Context(), policy.Models[0].Versions[0], nil, &policy.Models[0].Manifest, "", nil)
			o.Device = "dev"
			return o, err
		}, trustBatches)
	}
	w.addPipeline(twice)
	p := w.load("p")
	m0, m1 := w.version("m0", 1), w.version("m1", 1)
	b.Run("steps", func(b *testing.B) {
		for b.Loop() {
			if err := w.Predict(b.Context(), ask(p, 1, 1)); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("calls", func(b *testing.B) {
		for b.Loop() {
			first := ask(m0, 1, 1)
			if err := w.Predict(b.Context(), first); err != nil {
				b.Fatal(err)
			}
			second := ask(m1, 1, 1)
			second.Inputs = first.Results
			if err := w.Predict(b.Context(), second); err != nil {
				b.Fatal(err)
			}
		}
	})
}
