package ort_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/weftserve/weft/internal/onnxgraph"
	"github.com/weftserve/weft/runtime/ort"
	"github.com/weftserve/weft/runtime/tensor"
)

// BenchmarkCUDARun is one execution of a small policy network on a GPU, without CUDA graphs and with.
func BenchmarkCUDARun(b *testing.B) {
	g := useGPU(b)
	for _, graphs := range []bool{false, true} {
		s := g.openGraph(b, onnxgraph.MLP("policy", []int{48, 256, 128, 12}, 1, "Elu", "Tanh"),
			func(o *ort.Options) { o.CUDAGraphs = graphs })
		for _, rows := range []int64{1, 64} {
			b.Run(fmt.Sprintf("graphs=%t/rows=%d", graphs, rows), func(b *testing.B) {
				in := sample(tensor.Float32, tensor.Shape{rows, 48})
				batch := batchOf(b, s, in)
				for k := range 4 { // until the graph is proven
					batch.Inputs[0].Data[0] = byte(k)
					if err := s.Run(context.Background(), batch); err != nil {
						b.Fatal(err)
					}
				}
				for b.Loop() {
					if err := s.Run(context.Background(), batch); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}

// BenchmarkCUDACopy is one execution that mostly copies, with buffers as they are and page-locked.
func BenchmarkCUDACopy(b *testing.B) {
	g := useGPU(b)
	for _, pinned := range []bool{false, true} {
		s := g.openGraph(b, neg(), func(o *ort.Options) { o.PinBuffers = pinned })
		for _, size := range []int64{1 << 14, 1 << 20, 1 << 25} {
			b.Run(fmt.Sprintf("pinned=%t/bytes=%d", pinned, size), func(b *testing.B) {
				batch := tensor.NewBatch(1, 1, s.Memory())
				defer batch.Free()
				batch.Input(0, tensor.Float32, tensor.Shape{size / 8, 2}, int(size))
				b.SetBytes(2 * size)
				for b.Loop() {
					if err := s.Run(context.Background(), batch); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}
