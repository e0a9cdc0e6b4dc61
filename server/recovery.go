package server

import (
	"context"
	"errors"
	"log/slog"
	"runtime/debug"

	"google.golang.org/grpc"
)

// errPanic is all that a caller learns of a panic; the log has the rest.
var errPanic = errors.New("internal error: the server failed while it handled this request; its log has the details")

// recovery turns a panic of a handler into an error of that one call. It logs as well as returns, because the caller must not
// see what was being done.
type recovery struct{ log *slog.Logger }

// handle takes what recover returned, and replaces *err by errPanic if there was a panic.
func (r recovery) handle(ctx context.Context, what string, p any, err *error) {
	if p != nil {
		r.log.ErrorContext(ctx, "panic in a request handler", "method", what, "panic", p, "stack", string(debug.Stack()))
		*err = errPanic
	}
}

func (r recovery) unary(ctx context.Context, req any, info *grpc.UnaryServerInfo, next grpc.UnaryHandler) (_ any, err error) {
	defer func() { err = translatePanic(err) }()
	defer func() { r.handle(ctx, info.FullMethod, recover(), &err) }()
	return next(ctx, req)
}

func (r recovery) stream(srv any, stream grpc.ServerStream, info *grpc.StreamServerInfo, next grpc.StreamHandler) (err error) {
	defer func() { err = translatePanic(err) }()
	defer func() { r.handle(stream.Context(), info.FullMethod, recover(), &err) }()
	return next(srv, stream)
}

func translatePanic(err error) error {
	if errors.Is(err, errPanic) {
		return statusOf(errPanic, place{}).Err()
	}
	return err
}
