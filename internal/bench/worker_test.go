package bench

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/weftserve/weft/internal/ortlib"
	"github.com/weftserve/weft/internal/weftest"
	weftv1 "github.com/weftserve/weft/proto/gen/weft/v1"
	"github.com/weftserve/weft/runtime/engine"
	"github.com/weftserve/weft/runtime/host"
	"github.com/weftserve/weft/runtime/modelfile"
	"github.com/weftserve/weft/runtime/modelrepo"
	"github.com/weftserve/weft/runtime/ort"
	"github.com/weftserve/weft/runtime/worker"
)

// serves is the argument that makes the test program a worker; the library's path follows.
const serves = "serve-as-a-worker"

func TestMain(m *testing.M) {
	if len(os.Args) == 3 && os.Args[1] == serves {
		if err := worker.Serve(onnxWorker(os.Args[2])); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	if len(os.Args) == 5 && os.Args[1] == callsElsewhere {
		if err := callElsewhere(os.Args[2], os.Args[3], os.Args[4]); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

// onnxWorker opens models by their paths.
type onnxWorker string

func (library onnxWorker) Load() error { return ort.Init(string(library)) }

func (onnxWorker) Open(_ context.Context, model json.RawMessage, _ *os.File, _ *slog.Logger) (engine.Opened, error) {
	var path string
	if err := json.Unmarshal(model, &path); err != nil {
		return engine.Opened{}, err
	}
	s, err := ort.Open(path, ort.Options{})
	if err != nil {
		return engine.Opened{}, err
	}
	return engine.Opened{Session: s, Device: "cpu", Provider: s.Provider()}, nil
}

// openInWorker returns an Opener of models in a worker.
func openInWorker(tb testing.TB) host.Opener {
	tb.Helper()
	pool := worker.NewPool(worker.Config{Command: serves, Library: ortlib.Find, Log: slog.New(slog.DiscardHandler)})
	tb.Cleanup(pool.Close)
	return func(ctx context.Context, v modelrepo.Version, _ *modelfile.Files, _ *modelrepo.Manifest,
		_ string, _ engine.Try,
	) (engine.Opened, error) {
		return pool.Open(ctx, worker.Place{Device: "cpu"}, v.Path, nil, nil)
	}
}

// BenchmarkIsolation compares a small policy in this process with the same in a worker, over gRPC.
func BenchmarkIsolation(b *testing.B) {
	inWorker := openInWorker(b)
	clients := map[string]weftv1.PredictionServiceClient{}
	houses := map[string]*house{}
	for _, in := range []string{"none", "device"} {
		open := openONNX
		if in == "device" {
			open = inWorker
		}
		houses[in] = newHouseOf(b, small, "", open)
		clients[in] = weftv1.NewPredictionServiceClient(houses[in].serve(b))
	}
	req := observation()
	for _, n := range []int{1, 64} {
		for _, in := range []string{"none", "device"} {
			b.Run(fmt.Sprintf("callers=%d/in=%s", n, in), func(b *testing.B) {
				rowsPerBatch, cpuPerRow := houses[in].mark()
				before := processorTime(b)
				callers(b, n, func() error {
					_, err := clients[in].Predict(b.Context(), req)
					return err
				})
				b.ReportMetric(rowsPerBatch(), "rows/batch")
				b.ReportMetric(cpuPerRow(), "cpu-ns/row")
				b.ReportMetric(float64(processorTime(b)-before)/float64(b.N), "cpu-ns/op")
			})
		}
	}
}

// processorTime returns the processor time that this process and its workers took.
func processorTime(b *testing.B) (sum time.Duration) {
	b.Helper()
	for _, pid := range append(weftest.Children(os.Getpid()), os.Getpid()) {
		var t unix.Timespec
		if err := unix.ClockGettime(int32(^pid<<3|2), &t); err != nil { // its clock, by the kernel's rule for the number
			b.Fatal(err)
		}
		sum += time.Duration(t.Nano())
	}
	return sum
}
