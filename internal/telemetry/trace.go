package telemetry

import (
	"context"
	"log/slog"
	"math/rand/v2"
	"os"
	"strings"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"
	"go.opentelemetry.io/otel/trace"

	"github.com/weftserve/weft/server/predict"
	"github.com/weftserve/weft/server/protect"
	"github.com/weftserve/weft/sharedsched"
)

// scope is the name that metrics and spans have their origin by.
const scope = "github.com/weftserve/weft"

// Traces make the spans of requests and of the batches that they were in: one tree for each request, and one span for
// each batch, which links to those of its requests that are sampled. A request's root begins when it does, so that what
// is logged and measured meanwhile names it; all other spans are made when it has ended, from times that are taken
// anyway. They are safe for concurrent use.
type Traces struct {
	provider *sdktrace.TracerProvider
	sampled  trace.Tracer // by the sampler that the environment asks for, or by who called
	kept     trace.Tracer // of what belongs to a request that is sampled
	roots    float64      // the part of requests without a parent that is sampled; 1: the sampler decides on each
	followed atomic.Int64 // calls, and requests of HTTP
	epoch    time.Time    // of the scheduler's clock
	batches  batches
}

// rolled reports whether a request without a parent is sampled, as far as that is known before there is a span: for one
// that is not there never is any, since even a span that is not kept costs as much as a tenth of the request.
func (t *Traces) rolled() bool {
	return t.roots >= 1 || rand.Float64() < t.roots
}

// newTraces returns the traces that come to the processor, in the name of the options' resource.
func newTraces(to sdktrace.SpanProcessor, options ...sdktrace.TracerProviderOption) *Traces {
	limits := sdktrace.NewSpanLimits()
	if os.Getenv("OTEL_SPAN_LINK_COUNT_LIMIT") == "" {
		limits.LinkCountLimit = -1 // that of a batch links to as many requests as it may have
	}
	options = append([]sdktrace.TracerProviderOption{
		sdktrace.WithSpanProcessor(to), sdktrace.WithRawSpanLimits(limits),
	}, options...)
	t := &Traces{provider: sdktrace.NewTracerProvider(options...), roots: 1}
	t.sampled = t.provider.Tracer(scope)
	// It has the same processor, which the other shuts down.
	t.kept = sdktrace.NewTracerProvider(append(options, sdktrace.WithSampler(sdktrace.AlwaysSample()))...).Tracer(scope)
	return t
}

// Traces are nil where the environment does not ask for traces to be exported.
func (t *Telemetry) Traces() *Traces { return t.traces }

// endings is how long a shutdown waits for the spans of calls that have ended: gRPC says so in goroutines of their own.
const endings = 100 * time.Millisecond

// shutdown ends the spans of batches that wait for requests, and sends what was not sent yet.
func (t *Traces) shutdown(ctx context.Context) error {
	for until := time.Now().Add(endings); t.followed.Load() > 0 && time.Now().Before(until); {
		time.Sleep(time.Millisecond)
	}
	t.closeBatches()
	return t.provider.Shutdown(ctx)
}

// Begin implements predict.Traces.
func (t *Traces) Begin(ctx context.Context, r *predict.Request) (context.Context, predict.Trace) {
	c := t.callOf(ctx)
	if c == nil && r.TraceParent == "" && t.roots < 1 {
		return ctx, nil // its call was not sampled
	}
	name, start := "predict", r.Arrived
	if c != nil {
		c.asked.Store(true)
		name = c.name()
		if !r.Stream {
			start = c.began.Add(-protect.Late(ctx))
		}
	}
	by := t.sampled
	if r.TraceParent != "" {
		ctx = propagation.TraceContext{}.Extract(ctx, propagation.MapCarrier{"traceparent": r.TraceParent})
	} else if t.roots < 1 && !trace.SpanContextFromContext(ctx).IsValid() {
		if by = t.kept; r.Stream && !t.rolled() { // of others the call was
			return ctx, nil
		}
	}
	if start.IsZero() {
		start = time.Now()
	}
	ctx, span := by.Start(ctx, name, trace.WithTimestamp(start), trace.WithSpanKind(trace.SpanKindServer))
	if !span.IsRecording() {
		return ctx, nil
	}
	made := &Trace{traces: t, root: span, began: start}
	if c != nil {
		span.SetAttributes(c.attributes()...)
		if !r.Stream {
			made.call, c.request = c, made
			c.respond(ctx, span.SpanContext())
		}
	}
	made.ctx = context.WithValue(ctx, traceKey{}, made)
	return made.ctx, made
}

type traceKey struct{}

// at returns a time of the scheduler's clock as one near another: since the epoch the system's clock may have been set.
func (t *Traces) at(s sharedsched.Time, near time.Time) time.Time {
	return near.Add(time.Duration(s) - near.Sub(t.epoch))
}

// child makes a span below another, and returns its context.
func (t *Traces) child(of context.Context, name string, from, to time.Time, options ...trace.SpanStartOption,
) context.Context {
	ctx, span := t.kept.Start(of, name, append(options, trace.WithTimestamp(from))...)
	span.End(trace.WithTimestamp(to))
	return ctx
}

// fail marks a span as that of an error. The code is gRPC's, as predict.Event has it.
func fail(span trace.Span, code, why string) {
	if code != "OK" && code != "" {
		span.SetAttributes(semconv.ErrorTypeKey.String(statusName(code)))
		span.SetStatus(codes.Error, why)
	}
}

// statusName returns a code as conventions spell it: RESOURCE_EXHAUSTED for ResourceExhausted.
func statusName(code string) string {
	switch code {
	case "OK":
		return code
	case "Canceled":
		return "CANCELLED"
	}
	var b strings.Builder
	for i, r := range code {
		if i > 0 && 'A' <= r && r <= 'Z' {
			b.WriteByte('_')
		}
		b.WriteRune(r)
	}
	return strings.ToUpper(b.String())
}

// LogHandler returns a handler whose records name the span of the request that they are about, as trace_id and span_id.
// Those whose context has none are left as they are.
func LogHandler(to slog.Handler) slog.Handler { return spanHandler{to} }

type spanHandler struct{ slog.Handler }

// Handle implements slog.Handler.
func (h spanHandler) Handle(ctx context.Context, r slog.Record) error {
	if s := trace.SpanContextFromContext(ctx); s.IsValid() {
		r = r.Clone()
		r.AddAttrs(slog.String("trace_id", s.TraceID().String()), slog.String("span_id", s.SpanID().String()))
	}
	return h.Handler.Handle(ctx, r)
}

// WithAttrs implements slog.Handler.
func (h spanHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	return spanHandler{h.Handler.WithAttrs(attrs)}
}

// WithGroup implements slog.Handler.
func (h spanHandler) WithGroup(name string) slog.Handler {
	return spanHandler{h.Handler.WithGroup(name)}
}
