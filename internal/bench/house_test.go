package bench

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/weftserve/weft/internal/onnxgraph"
	"github.com/weftserve/weft/internal/ortlib"
	"github.com/weftserve/weft/internal/telemetry"
	weftv1 "github.com/weftserve/weft/proto/gen/weft/v1"
	"github.com/weftserve/weft/runtime/catalog"
	"github.com/weftserve/weft/runtime/engine"
	"github.com/weftserve/weft/runtime/host"
	"github.com/weftserve/weft/runtime/modelfile"
	"github.com/weftserve/weft/runtime/modelrepo"
	"github.com/weftserve/weft/runtime/ort"
	"github.com/weftserve/weft/runtime/tensor"
	"github.com/weftserve/weft/server"
	"github.com/weftserve/weft/server/transport"
	"github.com/weftserve/weft/sharedsched"
	"github.com/weftserve/weft/sharedsched/shell"
)

// house is Weft from the scheduler to the gRPC edge, without the program around it.
type house struct {
	host    *host.Host
	sched   *shell.Scheduler
	version *catalog.Version // of the policy; nil where there is none
	counts
}

// counts is the scheduler's observer: it adds up the executions' numbers.
type counts struct {
	batches, rows, cpu atomic.Int64
	metrics            atomic.Pointer[telemetry.Telemetry] // are told of them, too; nil: there are none
}

func (c *counts) BatchDone(e sharedsched.BatchEvent) {
	c.batches.Add(1)
	c.rows.Add(int64(e.Rows))
	c.cpu.Add(int64(e.DeviceTime))
	if t := c.metrics.Load(); t != nil {
		t.BatchDone(e)
	}
}

// mark returns functions that return the mean rows of an execution, and the processor time of a row, since mark was
// called.
func (c *counts) mark() (rowsPerBatch, cpuPerRow func() float64) {
	batches, rows, cpu := c.batches.Load(), c.rows.Load(), c.cpu.Load()
	return func() float64 { return float64(c.rows.Load()-rows) / float64(c.batches.Load()-batches) },
		func() float64 { return float64(c.cpu.Load()-cpu) / float64(c.rows.Load()-rows) }
}

// newHouse serves a dense network, on ONNX Runtime's CPU provider, with layers of the given sizes and the lines of a
// manifest.
func newHouse(tb testing.TB, sizes []int, manifest string) *house {
	tb.Helper()
	lib, err := ortlib.Find()
	if err != nil {
		tb.Fatal(err)
	}
	if err := ort.Init(lib); err != nil {
		tb.Fatal(err)
	}
	repo := tb.TempDir()
	addModel(tb, repo, "policy", manifest)
	if err := os.WriteFile(filepath.Join(repo, "policy", "1", "model.onnx"),
		onnxgraph.MLP("policy", sizes, 1, "Tanh", ""), 0o644); err != nil {
		tb.Fatal(err)
	}
	h := assemble(tb, repo, "cpu", openONNX)
	h.version = h.host.Snapshot().Model("policy").Newest()
	return h
}

// addModel adds a model with one version, and the lines of its manifest, to a repository.
func addModel(tb testing.TB, repo, name, manifest string) {
	tb.Helper()
	if err := errors.Join(
		os.MkdirAll(filepath.Join(repo, name, "1"), 0o755),
		os.WriteFile(filepath.Join(repo, name, "model.yaml"), []byte(manifest), 0o644),
	); err != nil {
		tb.Fatal(err)
	}
}

// assemble serves a repository, whose models must all be batched, on one device with one lane.
func assemble(tb testing.TB, repo, device string, open host.Opener) *house {
	tb.Helper()
	opened, err := modelrepo.Open(repo)
	if err != nil {
		tb.Fatal(err)
	}
	h := &house{host: host.New(host.Config{Open: open, Read: readONNX, Logger: slog.New(slog.DiscardHandler)})}
	h.sched, err = shell.New(sharedsched.Config{
		Devices: []sharedsched.Device{{Name: device, Class: device, Lanes: 1}},
	}, h.host, shell.Options{Observer: &h.counts})
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if err := h.host.Close(context.Background()); err != nil {
			tb.Error(err)
		}
		h.sched.Close()
	})
	h.host.Attach(h.sched)
	listing := opened.Scan()
	if err := listing.Err(); err != nil {
		tb.Fatal(err)
	}
	if err := h.host.Reconcile(tb.Context(), listing); err != nil {
		tb.Fatal(err)
	}
	for _, m := range h.host.Snapshot().Models.All() {
		v := m.Newest()
		if v == nil {
			tb.Fatalf("%s did not load: %+v", m.Name, m.Versions[0])
		}
		if !v.Batching.Batched {
			tb.Fatalf("%s is not batched: %s", m.Name, v.Batching.Reason)
		}
	}
	return h
}

func readONNX(ctx context.Context, v modelrepo.Version, told func(done, of int64)) (*modelfile.Files, error) {
	if v.Path == "" {
		return nil, nil
	}
	return modelfile.Read(ctx, modelfile.Place{Repository: v.Repository(), Dir: v.Dir}, told)
}

func openONNX(_ context.Context, v modelrepo.Version, _ *modelfile.Files, m *modelrepo.Manifest,
	_ string, _ engine.Try,
) (engine.Opened, error) {
	s, err := ort.Open(v.Path, ort.Options{IntraOpThreads: int(m.ONNX.IntraOpThreads)})
	if err != nil {
		return engine.Opened{}, err
	}
	return engine.Opened{Session: s, Device: "cpu", Provider: s.Provider()}, nil
}

// serve puts the gRPC edge before the house and returns a connection to it.
func (h *house) serve(tb testing.TB) *grpc.ClientConn {
	tb.Helper()
	edge := server.New(server.Config{}, h.host, h.sched)
	return listen(tb, edge.Register,
		transport.Options(transport.DefaultMaxMessageBytes, &tensor.Recycler{})...)
}

// listen serves on a loopback port and returns a connection to it.
func listen(tb testing.TB, register func(*grpc.Server), opts ...grpc.ServerOption) *grpc.ClientConn {
	tb.Helper()
	lis, err := (&net.ListenConfig{}).Listen(tb.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		tb.Fatal(err)
	}
	g := grpc.NewServer(opts...)
	register(g)
	var serving sync.WaitGroup
	serving.Go(func() {
		if err := g.Serve(lis); err != nil && !errors.Is(err, grpc.ErrServerStopped) {
			tb.Error(err)
		}
	})
	conn, err := grpc.NewClient(lis.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if err := conn.Close(); err != nil {
			tb.Error(err)
		}
		g.Stop()
		serving.Wait()
	})
	return conn
}

// observation is a request of one row of 48 numbers.
func observation() *weftv1.PredictRequest {
	return &weftv1.PredictRequest{
		Model: &weftv1.ModelSpec{Name: "policy"},
		Inputs: map[string]*weftv1.Tensor{
			"observation": {Dtype: weftv1.DataType_DATA_TYPE_FP32, Shape: []int64{1, 48}, Raw: make([]byte, 4*48)},
		},
	}
}

// callers runs b.N calls from n goroutines.
func callers(b *testing.B, n int, call func() error) {
	b.Helper()
	var left atomic.Int64
	left.Store(int64(b.N))
	var wg sync.WaitGroup
	for range n {
		wg.Go(func() {
			for left.Add(-1) >= 0 {
				if err := call(); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
}
