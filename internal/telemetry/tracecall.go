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

// call is a call of gRPC, or a request of HTTP, on its way. It is found in the contexts of the requests that it brings.
type call struct {
	method string // of gRPC, such as weft.v1.PredictionService/Predict
	began  time.Time
	stream bool          // its caller sends any number of requests
	web    *http.Request // of HTTP; nil: the call is one of gRPC
	writer *codeWriter   // of its answer

	asked     atomic.Bool  // a request came to the pipeline
	code, why string       // how its handler ended
	ends      atomic.Int32 // of a call with one answer: the ends that are still to come
	request   *Trace       // of a call that brings one; nil: it is not sampled
}

type callKey struct{}

// name is that of the spans of the call's requests.
func (c *call) name() string {
	if c.web == nil {
		return c.method
	}
	return c.web.Method + " " + c.route()
}

// route is the pattern that a request of HTTP matches.
func (c *call) route() string {
	_, path, has := strings.Cut(c.web.Pattern, " ")
	if !has {
		return c.web.Pattern
	}
	return path
}

func (c *call) attributes() []attribute.KeyValue {
	if c.web == nil {
		return []attribute.KeyValue{semconv.RPCSystemNameKey.String("grpc"), semconv.RPCMethod(c.method)}
	}
	return []attribute.KeyValue{
		semconv.HTTPRequestMethodKey.String(c.web.Method), semconv.HTTPRoute(c.route()),
	}
}

// answerKey is the header by which an answer names its trace, as W3C drafts it: like a traceparent.
const answerKey = "traceresponse"

// respond has the answer of the one request of a call name its trace.
func (c *call) respond(ctx context.Context, s trace.SpanContext) {
	value := "00-" + s.TraceID().String() + "-" + s.SpanID().String() + "-" + s.TraceFlags().String()
	if c.web != nil {
		c.writer.Header().Set(answerKey, value)
		return
	}
	_ = grpc.SetHeader(ctx, metadata.Pairs(answerKey, value)) // a call that has ended needs none
}

// endCall ends a call that brings one request, or none. Where none came to the pipeline, because it was refused before
// or asks for something else, the call has one span.
func (t *Traces) endCall(ctx context.Context, c *call, at time.Time, code, why string) {
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
