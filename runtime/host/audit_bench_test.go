package host_test

import (
	"context"
	"testing"
	"time"

	"github.com/weftserve/weft/internal/onnxgraph"
	"github.com/weftserve/weft/runtime/catalog"
	"github.com/weftserve/weft/runtime/tensor"
)

// BenchmarkAudit measures requests of a small policy from many callers at once, with audits and without: the cost of a
// request, and the share of requests that were audited.
func BenchmarkAudit(b *testing.B) {
	for name, share := range map[string]float64{"audit=off": 0, "audit=on": 0.01} {
		b.Run(name, func(b *testing.B) {
			l := onnxModel(b, onnxgraph.MLP("policy", []int{48, 256, 128, 12}, 7, "Elu", "Tanh"))
			l.Models[0].Manifest.Batching.Audit = share
			h := onnxHost(b, l)
			v := h.Snapshot().Model("m").Version(1)
			b.SetParallelism(32)
			b.ReportAllocs()
			start := time.Now()
			b.RunParallel(func(pb *testing.PB) {
				input := floats(tensor.Shape{1, 48}, make([]float32, 48)...)
				for pb.Next() {
					c := catalog.Call{Version: v, Rows: 1, Inputs: []tensor.Tensor{input}}
					if err := h.Predict(context.Background(), &c); err != nil {
						b.Error(err)
						return
					}
				}
			})
			b.ReportMetric(float64(b.N)/time.Since(start).Seconds(), "requests/s")
			if now := h.Snapshot().Model("m").Version(1); now.Batching.AuditShare > 0 {
				b.ReportMetric(float64(now.Live().Audited)/float64(b.N), "audits/op")
				if now.Live().Different > 0 {
					b.Error(now.Batching.Reason)
				}
			}
		})
	}
}
