package telemetry

import (
	"context"
	"strings"
	"time"

	"go.opentelemetry.io/otel/propagation"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
)

// Came begins to follow a gRPC call by its header, unless it is clear already that it is not sampled. On a stream each
// request is sampled by itself. A stats handler would learn of calls too, but gRPC would then report each message of
// each call to it, which costs more than a tenth of a small request. Health checks and reflection are not followed.
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
	// From here on the call is followed until its context ends.
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

// oneEnd notes one of the two ends of a call with one answer: the end of its handler, and that of its context, once
// gRPC has taken the answer to write it or the caller has left. The later one counts.
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

// callOf returns the call that a context belongs to, or nil if it is not followed. While no call is followed it looks
// for none: a search that finds nothing goes through the whole chain of contexts.
func (t *Traces) callOf(ctx context.Context) *call {
	if t.followed.Load() == 0 {
		return nil
	}
	c, _ := ctx.Value(callKey{}).(*call)
	return c
}

// headers reads the headers of a gRPC call as a propagation.TextMapCarrier.
type headers metadata.MD

// Get implements propagation.TextMapCarrier. Several values make a list, except for traceparent, which then counts as
// none.
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
