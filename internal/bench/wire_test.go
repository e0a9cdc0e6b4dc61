package bench

import (
	"context"
	"errors"
	"fmt"
	"io"
	"testing"
	"time"

	"golang.org/x/sys/unix"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/weftserve/weft/internal/telemetry"
	weftv1 "github.com/weftserve/weft/proto/gen/weft/v1"
	"github.com/weftserve/weft/runtime/catalog"
	"github.com/weftserve/weft/runtime/engine"
	"github.com/weftserve/weft/runtime/modelfile"
	"github.com/weftserve/weft/runtime/modelrepo"
	"github.com/weftserve/weft/runtime/tensor"
	"github.com/weftserve/weft/server"
	"github.com/weftserve/weft/server/rollout"
	"github.com/weftserve/weft/server/shadow"
	"github.com/weftserve/weft/server/transport"
)

// mirrorSession is the least that a model can do: it answers with its input.
type mirrorSession struct{ signature tensor.Signature }

func newMirrorSession() *mirrorSession {
	x := tensor.Spec{Name: "x", DType: tensor.Float32, Shape: tensor.Shape{tensor.Unknown, tensor.Unknown}}
	y := x
	y.Name = "y"
	return &mirrorSession{tensor.Signature{Inputs: []tensor.Spec{x}, Outputs: []tensor.Spec{y}}}
}

func (s *mirrorSession) Signature() *tensor.Signature { return &s.signature }

func (s *mirrorSession) Run(_ context.Context, b *tensor.Batch) error {
	in := &b.Inputs[0]
	copy(b.Output(0, in.DType, in.Shape, len(in.Data)), in.Data)
	return nil
}

func (s *mirrorSession) Stats() engine.Stats { return engine.Stats{} }
func (s *mirrorSession) Close() error        { return nil }

// serveMirror serves the mirror model with all that a server has around it, and returns a connection.
func serveMirror(tb testing.TB) *grpc.ClientConn {
	tb.Helper()
	repo := tb.TempDir()
	addModel(tb, repo, "mirror", "synth: {inputs: {x: {dtype: fp32, shape: [-1, 4]}}, "+
		"outputs: {y: {dtype: fp32, shape: [-1, 4]}}}\nbatching: {mode: on}")
	h := assemble(tb, repo, "synth", func(context.Context, modelrepo.Version, *modelfile.Files, *modelrepo.Manifest,
		string, engine.Try,
	) (engine.Opened, error) {
		return engine.Opened{Session: newMirrorSession(), Device: "synth", Provider: "synth"}, nil
	})
	return newSurroundings(tb, h, h.host).serve(tb, h)
}

// plain is the client's codec: what it sends was encoded before, and what it gets is not decoded, so that the
// benchmarks compare servers.
type plain struct{}

func (plain) Name() string { return "proto" }

func (plain) Marshal(v any) (mem.BufferSlice, error) {
	return mem.BufferSlice{mem.SliceBuffer(v.([]byte))}, nil
}

func (plain) Unmarshal(data mem.BufferSlice, v any) error {
	*v.(*int) = data.Len()
	return nil
}

func ignoreEOF(err error) error {
	if errors.Is(err, io.EOF) {
		return nil
	}
	return err
}

// serveEcho serves /echo/Echo and /echo/Stream, which answer with their messages.
func serveEcho(tb testing.TB) *grpc.ClientConn {
	tb.Helper()
	echo := func(_ any, _ context.Context, decode func(any) error, _ grpc.UnaryServerInterceptor) (any, error) {
		m := &wrapperspb.BytesValue{}
		return m, decode(m)
	}
	echoStream := func(_ any, stream grpc.ServerStream) error {
		for {
			m := &wrapperspb.BytesValue{}
			if err := stream.RecvMsg(m); err != nil {
				return ignoreEOF(err)
			}
			if err := stream.SendMsg(m); err != nil {
				return err
			}
		}
	}
	return listen(tb, func(g *grpc.Server) {
		g.RegisterService(&grpc.ServiceDesc{
			ServiceName: "echo", HandlerType: (*any)(nil), Methods: []grpc.MethodDesc{{MethodName: "Echo", Handler: echo}},
			Streams: []grpc.StreamDesc{{
				StreamName: "Stream", Handler: echoStream, ClientStreams: true, ServerStreams: true,
			}},
		}, struct{}{})
	})
}

// BenchmarkWire compares the way of a request through Weft, to a model that does nothing, with that through a server
// that answers with its request, which it decodes and encodes as gRPC does.
func BenchmarkWire(b *testing.B) {
	weft := serveMirror(b)
	echo := serveEcho(b)
	for _, kib := range []int{4, 64} {
		bytes := make([]byte, kib<<10)
		request := encoded(b, &weftv1.PredictRequest{
			Model: &weftv1.ModelSpec{Name: "mirror"},
			Inputs: map[string]*weftv1.Tensor{"x": {
				Dtype: weftv1.DataType_DATA_TYPE_FP32, Shape: []int64{1, int64(len(bytes) / 4)}, Raw: bytes,
			}},
		})
		wrapped := encoded(b, &wrapperspb.BytesValue{Value: bytes})
		for _, s := range []struct {
			name    string
			conn    *grpc.ClientConn
			method  string
			message []byte
		}{
			{"echo", echo, "/echo/Echo", wrapped},
			{"weft", weft, weftv1.PredictionService_Predict_FullMethodName, request},
		} {
			b.Run(fmt.Sprintf("%dK/%s", kib, s.name), func(b *testing.B) {
				b.ReportAllocs()
				before := processorTime(b)
				callers(b, 16, func() error {
					var length int
					return s.conn.Invoke(b.Context(), s.method, s.message, &length, grpc.ForceCodecV2(plain{}))
				})
				b.ReportMetric(float64((processorTime(b)-before).Microseconds())/float64(b.N), "cpu-us/op")
			})
		}
	}
}

// BenchmarkWireStream is BenchmarkWire for requests on streams, each with one at a time.
func BenchmarkWireStream(b *testing.B) {
	weft := serveMirror(b)
	echo := serveEcho(b)
	for _, kib := range []int{4, 64} {
		bytes := make([]byte, kib<<10)
		request := encoded(b, &weftv1.PredictStreamRequest{Request: &weftv1.PredictRequest{
			Model: &weftv1.ModelSpec{Name: "mirror"}, RequestId: "one",
			Inputs: map[string]*weftv1.Tensor{"x": {
				Dtype: weftv1.DataType_DATA_TYPE_FP32, Shape: []int64{1, int64(len(bytes) / 4)}, Raw: bytes,
			}},
		}})
		b.Run(fmt.Sprintf("%dK/echo", kib), func(b *testing.B) {
			pingPong(b, echo, "/echo/Stream", encoded(b, &wrapperspb.BytesValue{Value: bytes}))
		})
		b.Run(fmt.Sprintf("%dK/weft", kib), func(b *testing.B) {
			pingPong(b, weft, weftv1.PredictionService_PredictStream_FullMethodName, request)
		})
	}
}

// pingPong sends b.N messages on 16 streams.
func pingPong(b *testing.B, conn *grpc.ClientConn, method string, message []byte) {
	b.Helper()
	const streams = 16
	free := make(chan grpc.ClientStream, streams) // room for all of them
	for range streams {
		s, err := conn.NewStream(b.Context(), &grpc.StreamDesc{ClientStreams: true, ServerStreams: true}, method,
			grpc.ForceCodecV2(plain{}))
		if err != nil {
			b.Fatal(err)
		}
		free <- s
	}
	b.ReportAllocs()
	before := processorTime(b)
	b.ResetTimer()
	callers(b, streams, func() error {
		s := <-free
		defer func() { free <- s }()
		var length int
		return errors.Join(s.SendMsg(message), s.RecvMsg(&length))
	})
	b.StopTimer()
	b.ReportMetric(float64((processorTime(b)-before).Microseconds())/float64(b.N), "cpu-us/op")
	for range streams {
		if err := (<-free).CloseSend(); err != nil {
			b.Error(err)
		}
	}
}

func encoded(tb testing.TB, m proto.Message) []byte {
	tb.Helper()
	data, err := proto.Marshal(m)
	if err != nil {
		tb.Fatal(err)
	}
	return data
}

// processorTime returns the processor time that this process took.
func processorTime(b *testing.B) time.Duration {
	b.Helper()
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_PROCESS_CPUTIME_ID, &t); err != nil {
		b.Fatal(err)
	}
	return time.Duration(t.Nano())
}

// surroundings are all that the program has around a house.
type surroundings struct {
	metrics  *telemetry.Telemetry
	models   telemetry.Models // with their answers measured
	mirror   *shadow.Mirror
	rollouts *rollout.Manager
	memory   *tensor.Recycler
}

// newSurroundings returns those of a house in which models answer.
func newSurroundings(tb testing.TB, h *house, models telemetry.Models) *surroundings {
	tb.Helper()
	t, err := telemetry.New(tb.Context(), telemetry.Config{
		Slot: func(*catalog.Model, *catalog.Version) string { return "" },
	})
	if err != nil {
		tb.Fatal(err)
	}
	watched, err := t.Watch(models, h.sched)
	if err != nil {
		tb.Fatal(err)
	}
	mirror := shadow.New(shadow.Config{Models: models})
	tb.Cleanup(func() {
		if err := mirror.Close(context.Background()); err != nil {
			tb.Error(err)
		}
	})
	return &surroundings{
		metrics: t, models: watched, mirror: mirror, rollouts: rollout.New(rollout.Config{Traffic: h.host}),
		memory: &tensor.Recycler{},
	}
}

// serve serves the house and returns a connection to it.
func (s *surroundings) serve(tb testing.TB, h *house) *grpc.ClientConn {
	tb.Helper()
	h.metrics.Store(s.metrics)
	edge := server.New(server.Config{
		Observer: s.metrics, Memory: s.memory, Shadows: s.mirror, Rollouts: s.rollouts, Scarce: h.sched.Scarce,
	}, s.models, h.sched)
	return listen(tb, edge.Register, append(
		transport.Options(transport.DefaultMaxMessageBytes, s.memory),
		edge.Options(insecure.NewCredentials())...)...)
}
