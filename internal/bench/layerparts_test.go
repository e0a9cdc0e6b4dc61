package bench

import (
	"context"
	"fmt"
	"log/slog"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/mem"

	"github.com/weftserve/weft/runtime/catalog"
	"github.com/weftserve/weft/runtime/engine"
	"github.com/weftserve/weft/runtime/host"
	"github.com/weftserve/weft/runtime/modelfile"
	"github.com/weftserve/weft/runtime/modelrepo"
	"github.com/weftserve/weft/runtime/tensor"
	"github.com/weftserve/weft/server/predict"
	"github.com/weftserve/weft/server/status"
	"github.com/weftserve/weft/server/transport"
	"github.com/weftserve/weft/server/weftapi"
	"github.com/weftserve/weft/sharedsched"
	"github.com/weftserve/weft/sharedsched/shell"
)

// answering are models that answer at once.
type answering struct{ *host.Host }

var rowOf48, rowOf12 = tensor.Shape{1, 48}, tensor.Shape{1, 12}

func (answering) Predict(_ context.Context, call *catalog.Call) error {
	call.Outcome = sharedsched.Outcome{Queue: time.Microsecond, Compute: time.Microsecond, Executions: 1}
	if call.Memory != nil {
		call.Results = []tensor.Tensor{{DType: tensor.Float32, Shape: rowOf12, Data: *call.Memory.Get(4 * 12)}}
	}
	return nil
}

// edge is the way of a message through the handler of Predict: it is read, routed, decoded, answered and encoded.
func (l *layers) edge(b *testing.B) func() {
	b.Helper()
	models := answering{l.house.host}
	around := newSurroundings(b, l.house, models)
	calls := &transport.Calls{
		Pipeline: predict.New(predict.Config{
			Explain: status.Explain, Logger: slog.Default(), Memory: around.memory,
			Shadows: around.mirror, Rollouts: around.rollouts,
		}, models),
		MaxMessageBytes: transport.DefaultMaxMessageBytes, Memory: around.memory,
	}
	predictions := weftapi.Predictions{API: &weftapi.API{Calls: calls}}
	return func() {
		request := predictions.NewRequest("Predict")
		if err := request.Take(mem.BufferSlice{mem.SliceBuffer(l.request)}); err != nil {
			b.Error(err)
			return
		}
		answer, err := calls.Run(b.Context(), request)
		if err != nil {
			b.Error(err)
			return
		}
		answer.(*transport.Encoded).Pieces().Free()
	}
}

// telemetry counts a request's arrival, its answer, and its part of an execution.
func (l *layers) telemetry(b *testing.B, rows int) func() {
	b.Helper()
	around := newSurroundings(b, l.house, answering{l.house.host})
	request := predict.Event{Model: "policy", Version: 1, Code: "OK", Duration: time.Millisecond}
	batch := sharedsched.BatchEvent{
		Version: sharedsched.VersionID(l.house.version.Scheduler), Device: "cpu", Tasks: rows, Rows: rows, Padded: rows,
		Estimated: time.Millisecond, DeviceTime: time.Millisecond,
	}
	var requests atomic.Int64
	return func() {
		around.metrics.RequestOffered(request.Model, false)
		if err := around.models.Predict(b.Context(), &catalog.Call{Version: l.house.version}); err != nil {
			b.Error(err)
		}
		around.metrics.RequestDone(b.Context(), &request)
		if requests.Add(1)%int64(rows) == 0 {
			around.metrics.BatchDone(batch)
		}
	}
}

// yielding is an Executor that does nothing, but lets other goroutines run meanwhile, as any execution does.
type yielding struct{}

func (yielding) Execute(*sharedsched.Batch) sharedsched.Report {
	runtime.Gosched()
	return sharedsched.Report{DeviceTime: time.Microsecond}
}

// scheduled is an echo whose handlers wait until a scheduler has run a batch of their tasks, which takes no time.
func (l *layers) scheduled(b *testing.B, rows int) *grpc.ClientConn {
	b.Helper()
	s, err := shell.New(sharedsched.Config{
		Devices: []sharedsched.Device{{Name: "cpu", Class: "cpu", Lanes: 1}},
	}, yielding{}, shell.Options{})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(s.Close)
	flow, err := s.AddFlow("policy", "cpu", 1)
	if err != nil {
		b.Fatal(err)
	}
	version, err := s.AddVersion("policy/1", flow, sharedsched.Settings{
		Batched: true, MaxBatchSize: rows, MaxQueue: 1000, MaxLatency: 10 * time.Second,
	})
	if err != nil {
		b.Fatal(err)
	}
	return l.echo(b, func() {
		if _, err := s.Do(b.Context(), version, &sharedsched.Task{Rows: 1, Bytes: 4 * 48}); err != nil {
			b.Error(err)
		}
	})
}

// instant is an engine that answers at once.
type instant struct{ engine.Session }

func openInstant(like engine.Session) host.Opener {
	return func(context.Context, modelrepo.Version, *modelfile.Files, *modelrepo.Manifest, string, engine.Try,
	) (engine.Opened, error) {
		return engine.Opened{Session: instant{like}, Device: "cpu", Provider: "cpu"}, nil
	}
}

func (instant) Run(_ context.Context, b *tensor.Batch) error {
	b.Output(0, tensor.Float32, tensor.Shape{b.Inputs[0].Shape[0], 12}, int(b.Inputs[0].Shape[0])*4*12)
	b.DeviceTime = time.Microsecond
	runtime.Gosched() // as yielding
	return nil
}

func (instant) Close() error { return nil }

// hosted is an echo whose handlers wait until a host has run a batch of their rows on an engine that answers at once.
func (l *layers) hosted(b *testing.B, rows int) *grpc.ClientConn {
	b.Helper()
	h := newHouseOf(b, small, fmt.Sprintf("batching: {mode: on, max_batch_size: %d}", rows), openInstant(l.engine.Session))
	memory := &tensor.Recycler{}
	observation := make([]byte, 4*48)
	return l.echo(b, func() {
		call := catalog.Call{Version: h.version, Rows: 1, Memory: memory, Inputs: []tensor.Tensor{
			{DType: tensor.Float32, Shape: rowOf48, Data: observation},
		}}
		if err := h.host.Predict(b.Context(), &call); err != nil {
			b.Error(err)
			return
		}
		memory.Put(&call.Results[0].Data)
	})
}

// model is the engine's part of an execution.
func (l *layers) model(b *testing.B, rows int) func() {
	b.Helper()
	batch := tensor.NewBatch(1, 1, l.engine.Memory)
	b.Cleanup(batch.Free)
	clear(batch.Input(0, tensor.Float32, tensor.Shape{int64(rows), 48}, rows*4*48))
	return func() {
		if err := l.engine.Session.Run(b.Context(), batch); err != nil {
			b.Error(err)
		}
	}
}
