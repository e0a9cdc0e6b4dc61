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

// scope is the name by which metrics and spans say where they come from.
const scope = "github.com/weftserve/weft"

// Traces make the spans of requests and batches. Each request has a tree of spans, and each batch one span, which links
// to those of its requests that are sampled. The root of a request begins with it, so that logs and exemplars can name
// it. All other spans are made when the request has ended, from times that are measured anyway. They are safe for
// concurrent use.
type Traces struct {
	provider *sdktrace.TracerProvider
	sampled  trace.Tracer // by the sampler that the environment asks for, or by who called
	kept     trace.Tracer // of what belongs to a request that is sampled
	roots    float64      // the part of requests without a parent that is sampled; 1: the sampler decides on each
	followed atomic.Int64 // calls, and requests of HTTP
	epoch    time.Time    // of the scheduler's clock
	batches  batches
}

// rolled decides by chance whether a request without a parent is sampled, where the sampler's part is known. No span is
// made for the others: even a span that is not kept costs up to a tenth of a small request.
func (t *Traces) rolled() bool {
	return t.roots >= 1 || rand.Float64() < t.roots
}

// newTraces returns traces that send spans to a processor. The options name the resource that they are of.
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

// endings is how long a shutdown waits for the spans of calls that have ended, which gRPC reports by goroutines of its
// own.
const endings = 100 * time.Millisecond

// shutdown ends the spans of batches that still take links, and sends what was not sent yet.
func (t *Traces) shutdown(ctx context.Context) error {
	for until := time.Now().Add(endings); t.followed.Load() > 0 && time.Now().Before(until); {
		time.Sleep(time.Millisecond)
	}
	t.closeBatches()
	return t.provider.Shutdown(ctx)
}

// Begin implements predict.Traces. The root span is named after its call, and begins with it; that of a request on a
// stream begins when the request arrives. A traceparent of the request itself goes before that of its call.
func (t *Traces) Begin(ctx context.Context, r *predict.Request) (context.Context, predict.Trace) {
	c := t.callOf(ctx)
	if c == nil && r.TraceParent == "" && t.roots < 1 {
		return ctx, nil // its call was not sampled
	}
	name, start := "predict", r.Arrived
	if c != nil {
		c.asked.Store(true)
		name = c.name()
		// A call of its own began when its header came, and waited before that in the kernel.
		if !r.Stream {
			start = c.began.Add(-protect.Late(ctx))
		}
	}
	// Three ways: a parent decides by its own sampling, chance has decided already, or the sampler decides.
	by := t.sampled
	if r.TraceParent != "" {
		// The request says which span it belongs to, such as one on a stream of many.
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
	// The sampler left it out. The context still passes its decision on.
	if !span.IsRecording() {
		return ctx, nil
	}
	// Only the one request of a call may end with the call and name its trace in the answer's header.
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

// traceKey is the key of a request's *Trace in its context.
type traceKey struct{}

// at converts a time of the scheduler's clock to the system's, by a system's time near it: the system's clock may have
// been set since the epoch.
func (t *Traces) at(s sharedsched.Time, near time.Time) time.Time {
	return near.Add(time.Duration(s) - near.Sub(t.epoch))
}

// child makes a span that has ended below another, and returns its context.
func (t *Traces) child(of context.Context, name string, from, to time.Time, options ...trace.SpanStartOption,
) context.Context {
	ctx, span := t.kept.Start(of, name, append(options, trace.WithTimestamp(from))...)
	span.End(trace.WithTimestamp(to))
	return ctx
}

// fail marks a span as failed, unless the code is OK. The code is gRPC's, as predict.Event has it.
func fail(span trace.Span, code, why string) {
	if code != "OK" && code != "" {
		span.SetAttributes(semconv.ErrorTypeKey.String(statusName(code)))
		span.SetStatus(codes.Error, why)
	}
}

// statusName returns a code of gRPC's Go package in the spelling of the semantic conventions: RESOURCE_EXHAUSTED for
// ResourceExhausted.
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

// LogHandler returns a handler that adds the span of the context, as trace_id and span_id. It leaves records without a
// span as they are.
func LogHandler(to slog.Handler) slog.Handler { return spanHandler{to} }

// spanHandler adds the ids of spans to records.
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
