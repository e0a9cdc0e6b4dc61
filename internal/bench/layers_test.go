package bench

import (
	"context"
	"math"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"
	"google.golang.org/grpc"
	"google.golang.org/grpc/mem"

	"github.com/weftserve/weft/internal/app"
	weftv1 "github.com/weftserve/weft/proto/gen/weft/v1"
	"github.com/weftserve/weft/runtime/engine"
	"github.com/weftserve/weft/runtime/host"
	"github.com/weftserve/weft/runtime/modelfile"
	"github.com/weftserve/weft/runtime/modelrepo"
	"github.com/weftserve/weft/runtime/tensor"
	"github.com/weftserve/weft/server/transport"
)

// BenchmarkLayers tells where the processor time of a request goes: that of the whole server for 64 callers of a small
// policy in another process, and that of each layer by itself, at the mean batch that the server had. explained is
// their sum over the whole.
func BenchmarkLayers(b *testing.B) {
	app.TuneCollector() // as the program does
	for _, in := range []string{"none", "device"} {
		open := host.Opener(openONNX)
		if in == "device" {
			open = openInWorker(b)
		}
		l := newLayers(b, open)
		b.Run("isolation="+in, l.run)
	}
}

// layers is a served policy, and what its layers are measured with.
type layers struct {
	house   *house
	engine  engine.Opened
	conn    *grpc.ClientConn
	request []byte
	answer  []byte
}

func newLayers(b *testing.B, open host.Opener) *layers {
	b.Helper()
	l := &layers{request: encoded(b, observation())}
	l.house = newHouseOf(b, small, "", func(ctx context.Context, v modelrepo.Version, f *modelfile.Files,
		m *modelrepo.Manifest, device string, try engine.Try,
	) (_ engine.Opened, err error) {
		l.engine, err = open(ctx, v, f, m, device, try)
		return l.engine, err
	})
	l.conn = newSurroundings(b, l.house, l.house.host).serve(b, l.house)
	answer, err := weftv1.NewPredictionServiceClient(l.conn).Predict(b.Context(), observation())
	if err != nil {
		b.Fatal(err)
	}
	l.answer = encoded(b, answer)
	return l
}

// rounds is how often what is measured one after the other is measured, as the machine's speed changes.
const rounds = 10

func (l *layers) run(b *testing.B) {
	const predict = weftv1.PredictionService_Predict_FullMethodName
	rowsPerBatch, _ := l.house.mark()
	l.serverTime(b, l.conn, predict, b.N/rounds+1)
	rows := max(2, int(math.Round(rowsPerBatch())))
	echo := l.echo(b, nil)
	scheduled, hosted := l.scheduled(b, rows), l.hosted(b, rows)
	within, parts := l.within(b, rows)
	us := map[string]float64{}
	for range rounds {
		n := b.N/rounds + 1
		us["whole"] += l.serverTime(b, l.conn, predict, n) / rounds
		us["echo"] += l.serverTime(b, echo, "/echo/Echo", n) / rounds
		us["scheduled"] += l.serverTime(b, scheduled, "/echo/Echo", n) / rounds
		us["hosted"] += l.serverTime(b, hosted, "/echo/Echo", n) / rounds
		workers := workersTime(b)
		l.serverTime(b, within, "/echo/Echo", n)
		us["model"] += float64((workersTime(b) - workers).Nanoseconds()) / 1e3 / float64(n) / rounds
	}
	parts(us)
	us["sum"] = us["hosted"] + us["edge"] + us["telemetry"] + us["model"]
	for name, us := range us {
		b.ReportMetric(us, name+"-us")
	}
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(rowsPerBatch(), "rows/batch")
	b.ReportMetric(us["sum"]/us["whole"], "explained")
}

// serverTime returns the processor time, in microseconds, that each of n calls takes of this process and its workers.
func (l *layers) serverTime(b *testing.B, conn *grpc.ClientConn, method string, n int) float64 {
	b.Helper()
	before := processorTime(b)
	elsewhere(b, conn, method, l.request, n)
	return float64((processorTime(b) - before).Nanoseconds()) / 1e3 / float64(n)
}

// fixed answers each message with the same, and calls a function before, if there is one.
type fixed struct {
	forward
	answer []byte
	before func()
}

func (f fixed) Marshal(v any) (mem.BufferSlice, error) {
	if f.before != nil {
		f.before()
	}
	v.(*mem.BufferSlice).Free()
	return mem.BufferSlice{mem.SliceBuffer(f.answer)}, nil
}

// echo serves messages of the same sizes.
func (l *layers) echo(b *testing.B, before func()) *grpc.ClientConn {
	b.Helper()
	return serveEcho(b, func() any { return &mem.BufferSlice{} }, append(
		transport.Options(transport.DefaultMaxMessageBytes, &tensor.Recycler{}),
		grpc.ForceServerCodecV2(fixed{answer: l.answer, before: before}))...)
}

// within measures what is called from beginning to end: each part by itself, in the handler of an echo, where it finds
// the processor's caches as a request does. Called again and again they would take half the time.
func (l *layers) within(b *testing.B, rows int) (*grpc.ClientConn, func(us map[string]float64)) {
	b.Helper()
	nothing := &part{name: "nothing", call: func() {}}
	edge := &part{name: "edge", call: l.edge(b)}
	metrics := &part{name: "telemetry", call: l.telemetry(b, rows)}
	model := &part{name: "model", call: l.model(b, rows)}
	batches := make(chan struct{})
	done := make(chan struct{})
	go func() {
		for range batches {
			model.measure()
			done <- struct{}{}
		}
	}()
	b.Cleanup(func() { close(batches) })
	var requests atomic.Int64
	conn := l.echo(b, func() {
		nothing.measure()
		edge.measure()
		metrics.measure()
		if requests.Add(1)%int64(rows) == 0 {
			batches <- struct{}{}
			<-done
		}
	})
	return conn, func(us map[string]float64) {
		for _, p := range []*part{edge, metrics, model} {
			took := float64(p.took.Load()) -
				float64(nothing.took.Load())/float64(nothing.calls.Load())*float64(p.calls.Load())
			us[p.name] += took / 1e3 / float64(requests.Load())
		}
	}
}

// part is something whose processor time is measured each time it is called.
type part struct {
	name        string
	call        func()
	took, calls atomic.Int64
}

func (p *part) measure() {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	before := threadTime()
	p.call()
	p.took.Add(int64(threadTime() - before))
	p.calls.Add(1)
}

func threadTime() time.Duration { return clock(unix.CLOCK_THREAD_CPUTIME_ID) }

// workersTime returns the processor time that the workers of this process took.
func workersTime(b *testing.B) time.Duration {
	b.Helper()
	return processorTime(b) - clock(unix.CLOCK_PROCESS_CPUTIME_ID)
}

func clock(id int32) time.Duration {
	var t unix.Timespec
	if err := unix.ClockGettime(id, &t); err != nil {
		panic(err)
	}
	return time.Duration(t.Nano())
}
