package worker_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/weftserve/weft/internal/ortlib"
	"github.com/weftserve/weft/runtime/engine"
	"github.com/weftserve/weft/runtime/ort"
	"github.com/weftserve/weft/runtime/tensor"
)

// BenchmarkRun measures a run of a policy in a worker against the same run in this process.
func BenchmarkRun(b *testing.B) {
	path, err := filepath.Abs("../../examples/models/cartpole/3/model.onnx")
	if err != nil {
		b.Fatal(err)
	}
	if _, err := os.Stat(path); err != nil {
		b.Fatal(err)
	}
	lib, err := ortlib.Find()
	if err != nil {
		b.Fatal(err)
	}
	if err := ort.Init(lib); err != nil {
		b.Fatal(err)
	}
	direct, err := ort.Open(path, ort.Options{})
	if err != nil {
		b.Fatal(err)
	}
	p, _ := newPool(b)
	remote, err := p.Open(b.Context(), onCPU, model{Path: path}, nil, nil)
	if err != nil {
		b.Fatal(err)
	}
	for _, rows := range []int{1, 64} {
		for name, o := range map[string]engine.Opened{"none": {Session: direct}, "worker": remote} {
			b.Run(fmt.Sprintf("rows=%d/in=%s", rows, name), func(b *testing.B) {
				batch := tensor.NewBatch(1, len(direct.Signature().Outputs), o.Memory)
				defer batch.Free()
				batch.Input(0, tensor.Float32, tensor.Shape{int64(rows), 4}, rows*16)
				b.ReportAllocs()
				var took []time.Duration
				for b.Loop() {
					began := time.Now()
					if err := o.Session.Run(context.Background(), batch); err != nil {
						b.Fatal(err)
					}
					took = append(took, time.Since(began))
				}
				slices.Sort(took)
				b.ReportMetric(float64(took[len(took)/2].Nanoseconds()), "p50-ns/op")
			})
		}
	}
}
