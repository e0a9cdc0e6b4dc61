package transport

import (
	"context"
	"errors"
	"io"
	"slices"
	"sync"

	"google.golang.org/grpc"
	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/proto"

	"github.com/weftserve/weft/server/access"
	"github.com/weftserve/weft/server/predict"
	"github.com/weftserve/weft/server/protect"
	"github.com/weftserve/weft/server/status"
)

// Messages registers services so that a message which is broken or too large gets an error of ours. gRPC reports the
// first as INTERNAL, does not name the setting that the second is about, and answers the caller before any interceptor
// sees it: so messages are read here.
type Messages struct {
	*grpc.Server
	// Limit is the largest message in bytes, whether it came in a stream, was decompressed, or is an answer.
	Limit int
	// Memory is where messages lie until they were read.
	Memory mem.BufferPool
	// Refused is called for each message that never came to the service. method is that of gRPC, such as
	// /weft.v1.PredictionService/Predict.
	Refused func(ctx context.Context, method string, err error)
	// Door decides on each call, and on each message of a stream.
	Door *access.Control
	// Absent returns the error of a model that does not exist, for a caller who sees some models only.
	Absent func(model string, sees func(model string) bool) error
	// Keeps reports whether the messages of a method keep their caller themselves, see Admitted: then the context of a
	// unary call does not.
	Keeps func(method string) bool
	// Codes returns the error of a refused unary call as the protocol of its method has it; nil: as it is.
	Codes func(method string, err error) error
	// Ended is called with the context of each call whose handler has ended, and its error. Nil: nobody wants to know.
	Ended func(ctx context.Context, err error)
	// Checked reports whether the service itself keeps this kind of answer to the limit.
	Checked func(answer any) bool
}

// RegisterService implements grpc.ServiceRegistrar. It panics if there is no access rule for a method, see mustRule.
func (m Messages) RegisterService(desc *grpc.ServiceDesc, service any) {
	own := *desc
	own.Methods, own.Streams = slices.Clone(desc.Methods), slices.Clone(desc.Streams)
	for i := range own.Methods {
		handler, rule := own.Methods[i].Handler, mustRule(desc.ServiceName, own.Methods[i].MethodName)
		own.Methods[i].Handler = func(
			srv any, ctx context.Context, decode func(any) error, interceptor grpc.UnaryServerInterceptor,
		) (answer any, err error) {
			growStack()
			if m.Ended != nil {
				defer func() { m.Ended(ctx, err) }()
			}
			held := protect.Handle(ctx)
			defer func() { held.End(status.OfCaller(err)) }()
			if !m.Door.Open() {
				return m.enter(ctx, &rule, decode, held).handle(handler, srv, interceptor)
			}
			read := func(into any) error { return m.receive(ctx, into, true, decode, held, nil) }
			reply, err := handler(srv, ctx, read, interceptor)
			return m.reply(ctx, reply, err, held)
		}
	}
	for i := range own.Streams {
		handler, one := own.Streams[i].Handler, !own.Streams[i].ClientStreams
		rule := mustRule(desc.ServiceName, own.Streams[i].StreamName)
		own.Streams[i].Handler = func(srv any, stream grpc.ServerStream) (err error) {
			if m.Ended != nil {
				ctx := stream.Context()
				defer func() { m.Ended(ctx, err) }()
			}
			held := protect.Handle(stream.Context())
			defer func() { held.End(status.OfCaller(err)) }()
			// The guard counts answers as they are written; if it cannot be set, it is too late for a compressor as well.
			_ = grpc.SetSendCompressor(stream.Context(), encoding.Identity)
			stream = &heldStream{ServerStream: stream, held: held}
			if !m.Door.Open() {
				return m.open(stream, &rule, one, held, func(s grpc.ServerStream) error { return handler(srv, s) })
			}
			return handler(srv, &messageStream{stream, m, one, held})
		}
	}
	m.Server.RegisterService(&own, service)
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

// reply returns the answer of a handler, or why it cannot be sent.
func (m Messages) reply(ctx context.Context, reply any, err error, held protect.Handler) (any, error) {
	if err != nil {
		return nil, err
	}
	size := sizeOf(reply)
	if err := m.checkReply(ctx, reply, size); err != nil {
		return nil, err
	}
	held.Answers(size)
	return reply, nil
}

// sizeOf returns how many bytes an answer takes.
func sizeOf(answer any) int {
	switch a := answer.(type) {
	case *Encoded:
		return a.Bytes()
	case proto.Message:
		return proto.Size(a)
	}
	return 0
}

// heldStream is a stream whose answers the guard knows of from when there are any: many may wait to be sent.
type heldStream struct {
	grpc.ServerStream
	held protect.Handler

	sending sync.Mutex // gRPC allows one at a time
}

// SendMsg implements grpc.ServerStream. Unlike gRPC's it may be called by many at a time. It blocks while the caller
// does not read.
func (s *heldStream) SendMsg(answer any) error {
	s.held.Answers(sizeOf(answer))
	s.sending.Lock()
	defer s.sending.Unlock()
	return s.ServerStream.SendMsg(answer)
}

// messageStream is a stream whose messages are read and checked here.
type messageStream struct {
	grpc.ServerStream
	messages Messages
	one      bool // the caller sends one message
	held     protect.Handler
}

// RecvMsg implements grpc.ServerStream.
func (s *messageStream) RecvMsg(into any) error {
	return s.messages.receive(s.Context(), into, s.one, s.ServerStream.RecvMsg, s.held, nil)
}

// receive reads the next message. The error is io.EOF where a stream has no more, which is a fault if one must come, or
// the one that ends the call. decode is how gRPC does it. An error of by, which may be nil, is returned as it is.
func (m Messages) receive(ctx context.Context, into any, must bool, decode func(any) error, held protect.Handler,
	by taker,
) error {
	call := grpc.ServerTransportStreamFromContext(ctx)
	from, ok := call.(inbound)
	if !ok || typeOf(into) == "" {
		return decode(into)
	}
	held.Reads(must)
	n, err := receive(from, newCodec(m.Memory), into, m.Limit, held, by)
	held.Read(n)
	if must && errors.Is(err, io.EOF) {
		err = &status.BrokenMessageError{Want: typeOf(into), Why: "no message came"}
	}
	_, broken := errors.AsType[*status.BrokenMessageError](err)
	_, large := errors.AsType[*status.MessageTooLargeError](err)
	if !broken && !large {
		return err // nil, the end of the stream, or that of the connection
	}
	if m.Refused != nil {
		m.Refused(ctx, call.Method(), err)
	}
	return status.Fail(ctx, err, predict.Place{})
}

// checkReply refuses an answer that gRPC would refuse to send.
func (m Messages) checkReply(ctx context.Context, reply any, size int) error {
	if _, ok := reply.(proto.Message); !ok || m.Checked != nil && m.Checked(reply) {
		return nil
	}
	if size > m.Limit {
		err := &status.AnswerTooLargeError{Bytes: size, Limit: m.Limit, Remedy: "name one model"}
		return status.Fail(ctx, err, predict.Place{})
	}
	return nil
}

// growStack makes room on the goroutine's stack for all that a request needs. Go doubles a stack whenever it is full,
// and copies it: the later, the more calls are on it. With room from the start a request takes some 5 % less of a
// processor.
//
//go:noinline
func growStack() {
	var room [10 << 10]byte
	touch(&room)
}

//go:noinline
func touch(*[10 << 10]byte) {}
