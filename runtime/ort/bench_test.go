package ort_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/weftserve/weft/internal/onnxgraph"
	"github.com/weftserve/weft/runtime/tensor"
)

// BenchmarkRun is one execution of a small policy network, with the outputs written in place.
func BenchmarkRun(b *testing.B) {
	s := openGraph(b, onnxgraph.MLP("policy", []int{48, 256, 128, 12}, 1, "Elu", "Tanh"))
	for _, rows := range []int64{1, 64} {
		b.Run(fmt.Sprintf("rows=%d", rows), func(b *testing.B) {
			batch := batchOf(b, s, floats(tensor.Shape{rows, 48}, make([]float32, rows*48)...))
			b.ReportAllocs()
			for b.Loop() {
				if err := s.Run(context.Background(), batch); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkOverhead measures the cost of a run when the model does next to nothing: with an output of known shape, and
// with one whose shape the run decides.
func BenchmarkOverhead(b *testing.B) {
	for _, rows := range []any{"n", nil} {
		b.Run(fmt.Sprintf("known=%t", rows != nil), func(b *testing.B) {
			g := onnxgraph.New("compress").Input("x", onnxgraph.Float, "n", 4).Input("keep", onnxgraph.Bool, "n").
				Output("y", onnxgraph.Float, rows, 4)
			s := openGraph(b, g.Node("Compress", []string{"x", "keep"}, []string{"y"},
				onnxgraph.IntAttr("axis", 0)).Marshal())
			batch := batchOf(b, s, floats(tensor.Shape{1, 4}, 1, 2, 3, 4), bools(tensor.Shape{1}, true))
			b.ReportAllocs()
			for b.Loop() {
				if err := s.Run(context.Background(), batch); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
