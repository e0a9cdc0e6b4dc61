package predict

import (
	"context"
	"errors"
	"log/slog"
	"runtime/debug"
)

// ErrPanic is all that a caller learns of a panic; the log has the rest.
var ErrPanic = errors.New("internal error: the server failed while it handled this request; its log has the details")

// Recovered takes what recover returned in the handler of a call. If there was a panic it is logged, with its stack,
// and the error with which the call ends is ErrPanic, because the caller must not see the server's internals. Else the
// error is nil.
func Recovered(ctx context.Context, log *slog.Logger, method string, p any) error {
	if p == nil {
		return nil
	}
	log.ErrorContext(ctx, "panic in a request handler", "event", "request_panicked", "method", method, "panic", p,
		"stack", string(debug.Stack()))
	return ErrPanic
}
