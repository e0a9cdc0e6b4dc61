package weftclient

import (
	"errors"
	"fmt"
	"io"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// Error is the reason why a request was not answered.
type Error struct {
	Code    codes.Code
	Message string // what was wrong, where, what was expected, and what to do
	// Reason is the server's constant, such as QUEUE_FULL; "" if the code suffices. Metadata has its numbers.
	Reason   string
	Metadata map[string]string

	status *status.Status
	retry  *errdetails.RetryInfo // nil: the server gave no delay
}

// Error implements error.
func (e *Error) Error() string { return fmt.Sprintf("%v: %s", e.Code, e.Message) }

// GRPCStatus returns the status, with all its details, for [status.FromError].
func (e *Error) GRPCStatus() *status.Status { return e.status }

// RetryAfter returns the delay before a retry. It reports false if a retry does not help, or if the delay is unknown.
// Before that, the client has already sent the request as often as [WithAttempts] allows.
func (e *Error) RetryAfter() (time.Duration, bool) {
	return e.retry.GetRetryDelay().AsDuration(), e.retry != nil
}

// after returns the error with the text and the details of the previous refusal.
func (e *Error) after(refusal *Error) *Error {
	s := e.status.Proto() // a copy
	s.Message += "; the attempt before was refused: " + refusal.Error()
	s.Details = refusal.status.Proto().GetDetails()
	return statusError(status.FromProto(s))
}

// errorOf returns the error of a call as an *Error. It returns nil and io.EOF, the end of a stream, as they are.
func errorOf(err error) error {
	if err == nil || errors.Is(err, io.EOF) {
		return err
	}
	// If gRPC wrapped the error, as after several attempts, status.Convert would also return the text around it.
	if s, is := errors.AsType[interface {
		error
		GRPCStatus() *status.Status
	}](err); is {
		return statusError(s.GRPCStatus())
	}
	return statusError(status.Convert(err))
}

// statusError returns a status as an *Error, with the details that callers use.
func statusError(s *status.Status) *Error {
	e := &Error{Code: s.Code(), Message: s.Message(), status: s}
	for _, detail := range s.Details() {
		switch d := detail.(type) {
		case *errdetails.ErrorInfo:
			e.Reason, e.Metadata = d.GetReason(), d.GetMetadata()
		case *errdetails.RetryInfo:
			e.retry = d
		}
	}
	return e
}
