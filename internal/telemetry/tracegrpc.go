package telemetry

import (
	"context"
	"strings"

	"go.opentelemetry.io/otel/propagation"
	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/stats"
	"google.golang.org/grpc/status"
)

// handler follows the calls of gRPC from their headers until their answers were written. Only a stats handler learns of
// that.
type handler struct{ *Traces }

// TagConn implements stats.Handler.
func (handler) TagConn(ctx context.Context, _ *stats.ConnTagInfo) context.Context { return ctx }

// HandleConn implements stats.Handler.
func (handler) HandleConn(context.Context, stats.ConnStats) {}

// TagRPC implements stats.Handler. Calls that only look whether the server is there, or what it has, are not traced.
func (h handler) TagRPC(ctx context.Context, info *stats.RPCTagInfo) context.Context {
	method := strings.TrimPrefix(info.FullMethodName, "/")
	if strings.HasPrefix(method, "grpc.health.") || strings.HasPrefix(method, "grpc.reflection.") {
		return ctx
	}
	if parents := metadata.ValueFromIncomingContext(ctx, "traceparent"); len(parents) > 0 {
		ctx = propagation.TraceContext{}.Extract(ctx, headers{ctx})
	} else if _, stream := h.streams.Load(method); !stream && !h.rolled() {
		return ctx
	}
	return context.WithValue(ctx, callKey{}, &call{method: method})
}

// HandleRPC implements stats.Handler. On a stream it is called by several goroutines, and only notes the beginning.
func (h handler) HandleRPC(ctx context.Context, s stats.RPCStats) {
	switch s := s.(type) {
	case *stats.Begin:
		if c, is := ctx.Value(callKey{}).(*call); is {
			c.began, c.stream = s.BeginTime, s.IsClientStream
		}
	case *stats.OutPayload:
		if c, is := ctx.Value(callKey{}).(*call); is && !c.stream {
			c.written = s.SentTime
		}
	case *stats.End:
		if c, is := ctx.Value(callKey{}).(*call); is {
			st := status.Convert(s.Error)
			h.endCall(ctx, c, s.EndTime, st.Code().String(), st.Message())
		}
	}
}

// headers are those of a call of gRPC. It implements propagation.TextMapCarrier, to be read.
type headers struct{ context.Context } //nolint:containedctx // they are in it

// Get implements propagation.TextMapCarrier. Of headers that came several times only lists make one.
func (h headers) Get(key string) string {
	values := metadata.ValueFromIncomingContext(h, key)
	if len(values) > 1 && key == "traceparent" {
		return ""
	}
	return strings.Join(values, ",")
}

// Set implements propagation.TextMapCarrier.
func (headers) Set(string, string) {}

// Keys implements propagation.TextMapCarrier.
func (headers) Keys() []string { return nil }

// TraceStreams notes which methods of a server bring any number of requests, each of which is sampled by itself. It is
// called before the server serves.
func (t *Telemetry) TraceStreams(services map[string]grpc.ServiceInfo) {
	if t.traces == nil {
		return
	}
	for service, info := range services {
		for _, m := range info.Methods {
			if m.IsClientStream {
				t.traces.streams.Store(service+"/"+m.Name, true)
			}
		}
	}
}
