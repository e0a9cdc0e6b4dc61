package transport

import (
	"context"
	"slices"

	"google.golang.org/grpc"
	"google.golang.org/grpc/encoding"

	"github.com/weftserve/weft/server/access"
	"github.com/weftserve/weft/server/protect"
)

// Registrar registers services so that a message which is broken or too large gets an error of ours, and a panic ends
// its call only. gRPC reports the first as INTERNAL, does not name the setting that the second is about, and answers
// the caller before any interceptor sees it: so messages are read here.
type Registrar struct {
	*grpc.Server
	calls *Calls
}

// Predicting is a service with methods that predict one request each, whose messages are not those of the generated
// code.
type Predicting interface {
	// NewRequest returns an empty request of a method, such as Predict; nil: its messages are those of the generated code.
	NewRequest(method string) Request
}

// RegisterService implements grpc.ServiceRegistrar. It panics if there is no access rule for a method, see mustRule.
// Each handler of the service is replaced by one that finds out who calls, reads the messages, and catches panics; a
// method of a Predicting service with requests of its own goes through the pipeline by Calls.Run.
func (r Registrar) RegisterService(desc *grpc.ServiceDesc, service any) {
	own := *desc
	own.Methods, own.Streams = slices.Clone(desc.Methods), slices.Clone(desc.Streams)
	for i := range own.Methods {
		m := &own.Methods[i]
		rule, handler := mustRule(desc.ServiceName, m.MethodName), m.Handler
		predicting, predicts := service.(Predicting)
		if predicts = predicts && predicting.NewRequest(m.MethodName) != nil; predicts {
			r.calls.Throttle.Refuses(rule.Method, r.calls.Codes)
			name := m.MethodName
			handler = func(_ any, ctx context.Context, read func(any) error, _ grpc.UnaryServerInterceptor) (any, error) {
				request := predicting.NewRequest(name)
				if err := read(request); err != nil {
					request.Release()
					return nil, err
				}
				return r.calls.Run(ctx, request)
			}
		}
		m.Handler = func(srv any, ctx context.Context, decode func(any) error, _ grpc.UnaryServerInterceptor,
		) (answer any, err error) {
			growStack(false)
			c := unaryCalls.Get().(*unaryCall)
			c.call = call{Calls: r.calls, ctx: ctx, rule: &rule, held: protect.Handle(ctx)}
			c.decode, c.predicts = decode, predicts
			defer func() {
				c.end(recover(), &err)
				if predicts && r.calls.Trailer != nil {
					if trailer := r.calls.Trailer(); c.held.News(trailer) {
						_ = grpc.SetTrailer(ctx, *trailer) // fails only where the caller is gone
					}
				}
				// It is used again, and holds on to nothing of this call meanwhile.
				c.call, c.decode = call{}, nil
				unaryCalls.Put(c)
			}()
			return c.serve(handler, srv)
		}
	}
	for i := range own.Streams {
		handler, one := own.Streams[i].Handler, !own.Streams[i].ClientStreams
		rule := mustRule(desc.ServiceName, own.Streams[i].StreamName)
		own.Streams[i].Handler = func(srv any, stream grpc.ServerStream) (err error) {
			ctx := stream.Context()
			s := &messageStream{ServerStream: stream, one: one, beside: headersOf(ctx), call: call{
				Calls: r.calls, ctx: ctx, rule: &rule, held: protect.Handle(ctx),
			}}
			defer func() { s.end(recover(), &err) }()
			// Answers are counted as they are written; if the compressor cannot be set, it is too late for one as well.
			_ = grpc.SetSendCompressor(ctx, encoding.Identity)
			if err := s.enter(); err != nil {
				return err
			}
			if s.by != nil {
				s.ctx = access.WithCaller(ctx, s.by)
			}
			return handler(srv, s)
		}
	}
	r.Server.RegisterService(&own, service)
}

// mustRule returns the access rule of a method. It panics if there is none, because that is a mistake in the program:
// nobody could say who may call the method.
func mustRule(service, method string) access.Rule {
	rule, err := access.RuleOf(service, method)
	if err != nil {
		panic("transport: " + err.Error())
	}
	return rule
}

// growStack makes room on the goroutine's stack for all that a request needs. Go doubles a stack whenever it is full,
// and copies it: the later, the more calls are on it. Nothing is cleared: room is made for variables that no call has.
//
//go:noinline
func growStack(never bool) {
	if never {
		var room [5 << 10]byte
		touch(&room)
	}
}

// touch keeps the compiler from leaving room out.
//
//go:noinline
func touch(*[5 << 10]byte) {}
