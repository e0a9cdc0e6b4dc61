package telemetry

import (
	"context"
	"strings"
	"time"

	"go.opentelemetry.io/otel/propagation"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
)

// Came begins to follow a call of gRPC by its header, unless it is known already that it is not sampled. stream: its
// caller sends any number of requests, each sampled by itself. A stats handler would learn of the calls,
// too, but gRPC then tells it of each message of each call, which costs more than a tenth of a small request. Calls
// that only look whether the server is there, or what it has, are not followed.
func (t *Traces) Came(ctx context.Context, method string, header metadata.MD, stream bool) context.Context {
	parent := len(header["traceparent"]) > 0
	if !parent && !stream && !t.rolled() {
		return ctx
	}
	method = strings.TrimPrefix(method, "/")
	if strings.HasPrefix(method, "grpc.health.") || strings.HasPrefix(method, "grpc.reflection.") {
		return ctx
	}
	if parent {
		ctx = propagation.TraceContext{}.Extract(ctx, headers(header))
	}
	c := &call{method: method, stream: stream, began: time.Now()}
	ctx = context.WithValue(ctx, callKey{}, c)
	t.followed.Add(1)
	c.ends.Store(2)
	context.AfterFunc(ctx, func() {
		if !stream {
			t.oneEnd(ctx, c)
		}
		t.followed.Add(-1)
	})
	return ctx
}

// oneEnd notes one of the two ends of a call with one answer: that of its handler, and that of its context, once gRPC
// has taken the answer to write it or the caller has left. The last counts.
func (t *Traces) oneEnd(ctx context.Context, c *call) {
	if c.ends.Add(-1) == 0 {
		t.endCall(ctx, c, time.Now(), c.code, c.why)
	}
}

// Ended notes how the handler of a call ended.
func (t *Traces) Ended(ctx context.Context, err error) {
	c := t.callOf(ctx)
	if c == nil {
		return
	}
	st := status.Convert(err)
	c.code, c.why = st.Code().String(), st.Message()
	if c.stream {
		t.endCall(ctx, c, time.Now(), c.code, c.why)
	} else {
		t.oneEnd(ctx, c)
	}
}

// callOf returns the call of gRPC that a context is of, or the request of HTTP; nil: it is not followed. While none is
// nobody looks for one: that takes longer the longer there is none.
func (t *Traces) callOf(ctx context.Context) *call {
	if t.followed.Load() == 0 {
		return nil
	}
	c, _ := ctx.Value(callKey{}).(*call)
	return c
}

// headers are those of a call of gRPC. It implements propagation.TextMapCarrier, to be read.
type headers metadata.MD

// Get implements propagation.TextMapCarrier. Of headers that came several times only lists make one.
func (h headers) Get(key string) string {
	if len(h[key]) > 1 && key == "traceparent" {
		return ""
	}
	return strings.Join(h[key], ",")
}

// Set implements propagation.TextMapCarrier.
func (headers) Set(string, string) {}

// Keys implements propagation.TextMapCarrier.
func (headers) Keys() []string { return nil }
