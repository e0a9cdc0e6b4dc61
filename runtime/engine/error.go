package engine

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/weftserve/weft/runtime/tensor"
)

// Kind is the meaning of an engine's error for the caller that had the model executed.
type Kind uint8

// The kinds.
const (
	// ModelFailed is the kind of every error that says nothing else of itself: the model failed on these inputs.
	ModelFailed Kind = iota
	// DeviceLost says that the device failed, so that no later run on it can succeed.
	DeviceLost
	// OutOfMemory says that there was not enough memory. A smaller batch may fit.
	OutOfMemory
	// Terminated says that the run was stopped, whatever its inputs.
	Terminated
	// Crashed says that the run ended the process that it ran in, or that this had to be ended because it took too long.
	// Any request of the batch may be the cause, or none.
	Crashed
	// AnswerTooLarge says that the outputs exceed the batch's Most. The run of each request by itself shows whose are.
	AnswerTooLarge
	// NotOpen says that the run was not made, because the model could not be opened again in the engine's process, or
	// because the machine lacks what no request is to blame for, such as file descriptors. A later run may be made.
	NotOpen
)

// Error is an error of a kind. Its text is that of Err.
type Error struct {
	Kind Kind
	Err  error
}

func (e *Error) Error() string { return e.Err.Error() }

// Unwrap returns the error without its kind.
func (e *Error) Unwrap() error { return e.Err }

// RanOutOfMemory tells code that does not know engines that there was not enough memory.
func (e *Error) RanOutOfMemory() bool { return e.Kind == OutOfMemory }

// Overrun returns the error of a run that was stopped because it took longer than the batch's patience.
func Overrun(patience time.Duration, err error) error {
	return &Error{Crashed, &overrunError{patience, err}}
}

// errPatience is the cause of the end of a run that took too long.
var errPatience = errors.New("it took too long")

// WithPatience returns a context that ends a run once the batch's patience is over. judge, which follows the run, makes
// an overrun of its error if that is why the run was stopped.
func WithPatience(ctx context.Context, b *tensor.Batch) (limited context.Context, judge func(err *error)) {
	if b.Patience <= 0 {
		return ctx, func(*error) {}
	}
	patient, cancel := context.WithTimeoutCause(ctx, b.Patience, errPatience)
	return patient, func(err *error) {
		if *err != nil && errors.Is(context.Cause(patient), errPatience) && KindOf(*err) == Terminated {
			*err = Overrun(b.Patience, *err)
		}
		cancel()
	}
}

type overrunError struct {
	patience time.Duration
	err      error
}

func (e *overrunError) Error() string {
	return fmt.Sprintf("the run did not end within %v and was stopped (%v)", e.patience, e.err)
}

func (e *overrunError) Unwrap() error { return e.err }

// Overran tells code that does not know engines that the run took too long.
func (e *overrunError) Overran() {}

// ReopeningError is the error of a run that did not begin, because the engine's process was started again and the model
// is not open there yet. Its kind is Terminated.
type ReopeningError struct {
	// Done is closed once another try is worth while.
	Done <-chan struct{}
}

func (*ReopeningError) Error() string {
	return "the model is still being opened again in the engine's process"
}

// BoundError is the error, of the kind Crashed, of a run that ended because its process took more memory than it may.
type BoundError struct {
	// Bound is how many bytes the process may take of its own.
	Bound int64
	Err   error
}

func (e *BoundError) Error() string { return e.Err.Error() }

// Unwrap returns the error without the bound.
func (e *BoundError) Unwrap() error { return e.Err }

// ErrClosed is returned by a run that Close stopped before it began.
var ErrClosed error = &Error{Terminated, errors.New("the session is closed")}

// KindOf returns the kind of an error, as the outermost Error among it and the errors that it wraps says. A
// *tensor.OutOfMemoryError, which batch memory panics with, is of the kind OutOfMemory, a *tensor.TooLargeError of the
// kind AnswerTooLarge.
func KindOf(err error) Kind {
	if e, is := errors.AsType[*Error](err); is {
		return e.Kind
	}
	if _, is := errors.AsType[*tensor.OutOfMemoryError](err); is {
		return OutOfMemory
	}
	if _, is := errors.AsType[*tensor.TooLargeError](err); is {
		return AnswerTooLarge
	}
	return ModelFailed
}

// SignalOf returns the signal that ended the process of a run, such as SIGSEGV, if the error or one that it wraps has a
// method EndedBy that says so; "" if the process ended by itself, or was ended because the run took too long.
func SignalOf(err error) string {
	type death interface {
		error
		EndedBy() string
	}
	if d, is := errors.AsType[death](err); is {
		return d.EndedBy()
	}
	return ""
}
