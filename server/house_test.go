package server_test

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/test/bufconn"

	weftv1 "github.com/weftserve/weft/proto/gen/weft/v1"
	"github.com/weftserve/weft/runtime/catalog"
	"github.com/weftserve/weft/runtime/tensor"
	"github.com/weftserve/weft/server"
	"github.com/weftserve/weft/sharedsched"
)

// policy takes observations of four numbers and gives an action of two, the first two, and a value, the sum of all four.
var policySignature = &tensor.Signature{
	Inputs: []tensor.Spec{
		{Name: "observation", DType: tensor.Float32, Shape: tensor.Shape{tensor.Unknown, 4}, DimNames: []string{"batch", ""}, BatchDim: 0},
	},
	Outputs: []tensor.Spec{
		{Name: "action", DType: tensor.Float32, Shape: tensor.Shape{tensor.Unknown, 2}, BatchDim: 0},
		{Name: "value", DType: tensor.Float32, Shape: tensor.Shape{tensor.Unknown}, BatchDim: 0},
	},
	Notes: []string{"output probabilities is a map and is left out"},
}

func policyVersion(number int64, state catalog.State) *catalog.Version {
	v := &catalog.Version{
		Model: "policy", Number: number, State: state, Signature: policySignature, Device: "cpu", Provider: "cpu", Weight: 2,
		Batching: catalog.Batching{
			Batched: true, Reason: "proven", Proof: catalog.ProofExamples, Obstacle: "Loop: why", MaxDifference: 1e-7, MaxBatchSize: 64, AllowedBatchSizes: []int{8, 64}, MaxRequestRows: 100, MaxQueue: 1000,
		},
		MaxLatency: 10 * time.Second,
	}
	switch state {
	case catalog.Failed:
		v.Cause = "model.onnx is not an ONNX file"
		fallthrough
	case catalog.Loading:
		v.Signature, v.Batching = nil, catalog.Batching{}
	default:
	}
	return v
}

func snapshotOf(revision uint64, models ...*catalog.Model) *catalog.Snapshot {
	return &catalog.Snapshot{Revision: revision, Models: catalog.ByName(models...)}
}

// houseSnapshot: versions 1 and 2 of policy are ready, 3 is loading, 4 has failed.
func houseSnapshot() *catalog.Snapshot {
	return snapshotOf(1, &catalog.Model{
		Name: "policy",
		Versions: []*catalog.Version{
			policyVersion(1, catalog.Ready), policyVersion(2, catalog.Ready), policyVersion(3, catalog.Loading), policyVersion(4, catalog.Failed),
		},
		Labels: map[string]int64{"stable": 1},
	})
}

// offer is what the observer hears of a request that came.
type offer struct {
	model  string
	stream bool
}

// house is a server behind an in-memory connection, with models and a scheduler that a test directs.
type house struct {
	*server.Server
	conn     *grpc.ClientConn
	grpc     *grpc.Server
	predict  weftv1.PredictionServiceClient
	models   weftv1.ModelServiceClient
	snapshot atomic.Pointer[catalog.Snapshot]
	// run is Models.Predict. Set it before the first request.
	run   func(context.Context, *catalog.Call) error
	state sharedsched.State

	mu     sync.Mutex
	events []server.RequestEvent // guarded by mu
	// offered counts requests that came and did not end. Guarded by mu.
	offered map[offer]int
	// outcomes are those reported, as model/version. Guarded by mu.
	outcomes []string
}

func (h *house) Snapshot() *catalog.Snapshot { return h.snapshot.Load() }

func (h *house) Predict(ctx context.Context, call *catalog.Call) error { return h.run(ctx, call) }

func (h *house) State() sharedsched.State { return h.state }

func (h *house) RequestOffered(model string, stream bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.offered[offer{model, stream}]++
}

func (h *house) RequestDone(e server.RequestEvent) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.offered[offer{e.Model, e.Stream}]--
	h.events = append(h.events, e)
}

func (h *house) OutcomeReported(model string, version int64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.outcomes = append(h.outcomes, fmt.Sprint(model, "/", version))
}

func (h *house) OutcomeNotKept(model string, version int64, reason string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.outcomes = append(h.outcomes, fmt.Sprint(model, "/", version, ": ", reason))
}

func newHouse(t *testing.T, config server.Config, transport server.Transport) *house {
	t.Helper()
	h := &house{run: runPolicy, offered: map[offer]int{}}
	h.snapshot.Store(houseSnapshot())
	config.Observer = h
	config.Logger = slog.New(slog.DiscardHandler)
	transport.Logger = config.Logger
	h.Server = server.New(config, h, h)
	h.grpc = grpc.NewServer(transport.Options()...)
	h.Register(h.grpc)
	t.Cleanup(func() {
		for of, n := range h.offered { // the handlers have ended
			if n != 0 {
				t.Errorf("of the requests for %+v %d more came than ended", of, n)
			}
		}
	})
	h.conn = dial(t, h.grpc)
	h.predict, h.models = weftv1.NewPredictionServiceClient(h.conn), weftv1.NewModelServiceClient(h.conn)
	return h
}

// dial connects to a server, which it serves with until the end of the test.
func dial(t *testing.T, g *grpc.Server) *grpc.ClientConn {
	t.Helper()
	listener := bufconn.Listen(1 << 20)
	served := make(chan error, 1)
	go func() { served <- g.Serve(listener) }()
	conn, err := grpc.NewClient("passthrough:///house",
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return listener.DialContext(ctx) }),
		grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := conn.Close(); err != nil {
			t.Error(err)
		}
		g.Stop()
		if err := <-served; err != nil && !errors.Is(err, grpc.ErrServerStopped) { // as where the test ends before it has begun
			t.Error(err)
		}
	})
	return conn
}

// runPolicy is the model.
func runPolicy(_ context.Context, call *catalog.Call) error {
	obs := call.Inputs[0].Data
	action, value := make([]byte, 0, call.Rows*8), make([]byte, 0, call.Rows*4)
	for row := range call.Rows {
		var sum float32
		for i := range 4 {
			sum += math.Float32frombits(binary.LittleEndian.Uint32(obs[16*row+4*i:]))
		}
		action = append(action, obs[16*row:16*row+8]...)
		value = binary.LittleEndian.AppendUint32(value, math.Float32bits(sum))
	}
	all := []tensor.Tensor{
		{DType: tensor.Float32, Shape: tensor.Shape{int64(call.Rows), 2}, Data: action},
		{DType: tensor.Float32, Shape: tensor.Shape{int64(call.Rows)}, Data: value},
	}
	call.Results = all
	if call.Wanted != nil {
		call.Results = nil
		for _, i := range call.Wanted {
			call.Results = append(call.Results, all[i])
		}
	}
	call.Outcome = sharedsched.Outcome{
		Queue: time.Millisecond, Compute: 2 * time.Millisecond, DeviceTime: 3 * time.Millisecond, Device: "cpu",
		Reason: sharedsched.FlushFull, BatchRequests: 4, BatchRows: 5, PaddedRows: 6, Executions: 7,
	}
	return nil
}

// gated is a model whose calls wait until the test lets them go, like queued ones: the end of their context cancels them.
type gated struct {
	entered chan *catalog.Call
	release chan struct{} // one element, or its closing, lets a call go
}

func newGated() *gated {
	return &gated{entered: make(chan *catalog.Call), release: make(chan struct{})}
}

func (g *gated) run(ctx context.Context, call *catalog.Call) error {
	select {
	case g.entered <- call:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	select {
	case <-g.release:
		return runPolicy(ctx, call)
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// observation is a request of one row with typed values.
func observation(id string, values ...float32) *weftv1.PredictRequest {
	if values == nil {
		values = []float32{1, 2, 3, 4}
	}
	return &weftv1.PredictRequest{
		Model:     &weftv1.ModelSpec{Name: "policy"},
		RequestId: id,
		Inputs: map[string]*weftv1.Tensor{"observation": {
			Dtype: weftv1.DataType_DATA_TYPE_FP32, Shape: []int64{int64(len(values) / 4), 4}, FloatValues: values,
		}},
	}
}

var errBoom = errors.New("boom")
