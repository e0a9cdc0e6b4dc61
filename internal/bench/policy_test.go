package bench

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"google.golang.org/grpc"

	weftv1 "github.com/weftserve/weft/proto/gen/weft/v1"
	"github.com/weftserve/weft/runtime/catalog"
	"github.com/weftserve/weft/runtime/tensor"
)

var (
	small = []int{48, 256, 128, 12}
	large = []int{48, 1024, 1024, 1024, 12}
)

// BenchmarkPolicyInProcess runs a small policy through scheduler and host, without gRPC. cpu-ns/row is the processor
// time of the model alone; vs-batch-1 compares it with that of a lone caller, whose every request is an execution of
// its own.
func BenchmarkPolicyInProcess(b *testing.B) {
	h := newHouse(b, small, "")
	alone := 0.0
	for _, n := range []int{1, 256} {
		b.Run(fmt.Sprintf("callers=%d", n), func(b *testing.B) {
			rowsPerBatch, cpuPerRow := h.mark()
			b.ReportAllocs()
			b.ResetTimer()
			inputs := []tensor.Tensor{{DType: tensor.Float32, Shape: tensor.Shape{1, 48}, Data: make([]byte, 4*48)}}
			callers(b, n, func() error {
				return h.host.Predict(b.Context(), &catalog.Call{Version: h.version, Rows: 1, Inputs: inputs})
			})
			b.StopTimer()
			b.ReportMetric(rowsPerBatch(), "rows/batch")
			b.ReportMetric(cpuPerRow(), "cpu-ns/row")
			if n == 1 {
				alone = cpuPerRow()
			} else if alone > 0 {
				b.ReportMetric(cpuPerRow()/alone, "vs-batch-1")
			}
		})
	}
}

// BenchmarkPolicyOverGRPC runs a larger policy for many callers on one connection.
func BenchmarkPolicyOverGRPC(b *testing.B) {
	h := newHouse(b, large, "")
	client := weftv1.NewPredictionServiceClient(h.serve(b))
	req := observation()
	rowsPerBatch, cpuPerRow := h.mark()
	b.ReportAllocs()
	b.ResetTimer()
	callers(b, 64, func() error {
		_, err := client.Predict(b.Context(), req)
		return err
	})
	b.StopTimer()
	b.ReportMetric(rowsPerBatch(), "rows/batch")
	b.ReportMetric(cpuPerRow(), "cpu-ns/row")
}

// echo answers every Predict at once, with as many bytes as the policy's answer has.
type echo struct {
	weftv1.UnimplementedPredictionServiceServer
	answer *weftv1.PredictResponse
}

func (e *echo) Predict(context.Context, *weftv1.PredictRequest) (*weftv1.PredictResponse, error) {
	return e.answer, nil
}

// BenchmarkLoneCaller compares a lone caller of Predict with one of a bare grpc-go server that echoes messages of the
// same size, call by call in turn. added-us is the difference of the medians, the model's own time included.
func BenchmarkLoneCaller(b *testing.B) {
	h := newHouse(b, small, "")
	weft := weftv1.NewPredictionServiceClient(h.serve(b))
	req := observation()
	answer, err := weft.Predict(b.Context(), req)
	if err != nil {
		b.Fatal(err)
	}
	bare := weftv1.NewPredictionServiceClient(listen(b, func(g *grpc.Server) {
		weftv1.RegisterPredictionServiceServer(g, &echo{answer: answer})
	}))
	_, cpuPerRow := h.mark()
	var took [2][]time.Duration
	for b.Loop() {
		for i, client := range []weftv1.PredictionServiceClient{bare, weft} {
			start := time.Now()
			if _, err := client.Predict(b.Context(), req); err != nil {
				b.Fatal(err)
			}
			took[i] = append(took[i], time.Since(start))
		}
	}
	var p50 [2]float64
	for i := range took {
		slices.Sort(took[i])
		p50[i] = float64(took[i][len(took[i])/2].Nanoseconds()) / 1e3
	}
	b.ReportMetric(p50[0], "echo-p50-us")
	b.ReportMetric(p50[1], "weft-p50-us")
	b.ReportMetric(p50[1]-p50[0], "added-us")
	b.ReportMetric(cpuPerRow()/1e3, "model-us")
}
