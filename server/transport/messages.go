package transport

import (
	"context"
	"errors"
	"io"
	"slices"

	"google.golang.org/grpc"
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/proto"

	"github.com/weftserve/weft/server/predict"
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
	Refused func(method string, err error)
	// Checked reports whether the service itself keeps this kind of answer to the limit.
	Checked func(answer any) bool
}

// RegisterService implements grpc.ServiceRegistrar.
func (m Messages) RegisterService(desc *grpc.ServiceDesc, service any) {
	own := *desc
	own.Methods, own.Streams = slices.Clone(desc.Methods), slices.Clone(desc.Streams)
	for i := range own.Methods {
		handler := own.Methods[i].Handler
		own.Methods[i].Handler = func(
			srv any, ctx context.Context, decode func(any) error, interceptor grpc.UnaryServerInterceptor,
		) (any, error) {
			growStack()
			read := func(into any) error { return m.receive(ctx, into, true, decode) }
			reply, err := handler(srv, ctx, read, interceptor)
			if err != nil {
				return nil, err
			}
			return reply, m.checkReply(ctx, reply)
		}
	}
	for i := range own.Streams {
		handler, one := own.Streams[i].Handler, !own.Streams[i].ClientStreams
		own.Streams[i].Handler = func(srv any, stream grpc.ServerStream) error {
			return handler(srv, &messageStream{stream, m, one})
		}
	}
	m.Server.RegisterService(&own, service)
}

// messageStream is a stream whose messages are read and checked here.
type messageStream struct {
	grpc.ServerStream
	messages Messages
	one      bool // the caller sends one message
}

// RecvMsg implements grpc.ServerStream.
func (s *messageStream) RecvMsg(into any) error {
	return s.messages.receive(s.Context(), into, s.one, s.ServerStream.RecvMsg)
}

// receive reads the next message. The error is io.EOF where a stream has no more, which is a fault if one must come, or
// the one that ends the call. decode is how gRPC does it.
func (m Messages) receive(ctx context.Context, into any, must bool, decode func(any) error) error {
	call := grpc.ServerTransportStreamFromContext(ctx)
	from, ok := call.(inbound)
	if !ok || typeOf(into) == "" {
		return decode(into)
	}
	err := receive(from, newCodec(m.Memory), into, m.Limit)
	if must && errors.Is(err, io.EOF) {
		err = &status.BrokenMessageError{Want: typeOf(into), Why: "no message came"}
	}
	_, broken := errors.AsType[*status.BrokenMessageError](err)
	_, large := errors.AsType[*status.MessageTooLargeError](err)
	if !broken && !large {
		return err // nil, the end of the stream, or that of the connection
	}
	if m.Refused != nil {
		m.Refused(call.Method(), err)
	}
	return status.Fail(ctx, err, predict.Place{})
}

// checkReply refuses an answer that gRPC would refuse to send.
func (m Messages) checkReply(ctx context.Context, reply any) error {
	message, ok := reply.(proto.Message)
	if !ok || m.Checked != nil && m.Checked(reply) {
		return nil
	}
	if size := proto.Size(message); size > m.Limit {
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
