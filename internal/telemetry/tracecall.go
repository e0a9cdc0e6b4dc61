package telemetry

import (
	"context"
	"net/http"
	"strings"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel/attribute"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"
	"go.opentelemetry.io/otel/trace"
	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
)

// call is a gRPC call or an HTTP request that is being served. The contexts of the requests in it lead to it. A call
// with one answer ends twice, by its handler and by its context, and the later end makes its span.
type call struct {
	method string // of gRPC, such as weft.v1.PredictionService/Predict
	began  time.Time
	stream bool          // its caller sends any number of requests
	web    *http.Request // of HTTP; nil: the call is one of gRPC
	writer *codeWriter   // of its answer

	// How it went on. The handler, the context and the requests of a stream write here, each at its own time.
	asked     atomic.Bool  // a request came to the pipeline
	code, why string       // how its handler ended
	ends      atomic.Int32 // of a call with one answer: the ends that are still to come
	request   *Trace       // of a call that brings one; nil: it is not sampled
}

// callKey is the key of a *call in the contexts of its requests.
type callKey struct{}

// name is the name of the spans of its requests.
func (c *call) name() string {
	if c.web == nil {
		return c.method
	}
	return c.web.Method + " " + c.route()
}

// route is the path of the pattern that an HTTP request matched, which has no names of models in it.
func (c *call) route() string {
	_, path, has := strings.Cut(c.web.Pattern, " ")
	if !has {
		return c.web.Pattern
	}
	return path
}

// attributes are those of the semantic conventions for calls of its kind.
func (c *call) attributes() []attribute.KeyValue {
	if c.web == nil {
		return []attribute.KeyValue{semconv.RPCSystemNameKey.String("grpc"), semconv.RPCMethod(c.method)}
	}
	return []attribute.KeyValue{
		semconv.HTTPRequestMethodKey.String(c.web.Method), semconv.HTTPRoute(c.route()),
	}
}

// answerKey is the header by which an answer names its trace, as a draft of the W3C has it. It is written like
// traceparent.
const answerKey = "traceresponse"

// respond makes the answer of a call's only request name its trace.
func (c *call) respond(ctx context.Context, s trace.SpanContext) {
	value := "00-" + s.TraceID().String() + "-" + s.SpanID().String() + "-" + s.TraceFlags().String()
	if c.web != nil {
		c.writer.Header().Set(answerKey, value)
		return
	}
	_ = grpc.SetHeader(ctx, metadata.Pairs(answerKey, value)) // a call that has ended needs none
}

// endCall ends a call that brings at most one request. If no request came to the pipeline, because it was refused
// before or the call asks for something else, the call gets a span of its own.
func (t *Traces) endCall(ctx context.Context, c *call, at time.Time, code, why string) {
	// The root of its request is the span of the call, too.
	if c.request != nil {
		c.request.end(at)
		return
	}
	if c.asked.Load() {
		return
	}
	by := t.sampled
	if t.roots < 1 && !trace.SpanContextFromContext(ctx).IsValid() {
		if by = t.kept; c.stream && !t.rolled() {
			return
		}
	}
	_, span := by.Start(ctx, c.name(), trace.WithTimestamp(c.began), trace.WithSpanKind(trace.SpanKindServer))
	if !span.IsRecording() {
		return
	}
	span.SetAttributes(c.attributes()...)
	if c.web == nil {
		span.SetAttributes(semconv.RPCResponseStatusCode(statusName(code)))
	} else {
		span.SetAttributes(semconv.HTTPResponseStatusCode(c.writer.code))
	}
	fail(span, code, why)
	span.End(trace.WithTimestamp(at))
}
