package status

import (
	"context"
	"errors"
	"strconv"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"

	"github.com/weftserve/weft/runtime/catalog"
	"github.com/weftserve/weft/runtime/tensor"
	"github.com/weftserve/weft/server/predict"
	"github.com/weftserve/weft/server/routing"
	"github.com/weftserve/weft/sharedsched"
)

// faultOf is the error table.
func faultOf(err error) fault {
	if e, ok := errors.AsType[*catalog.LoadError](err); ok { // before the errors that it may wrap
		return loadFault(e)
	}
	if e, ok := errors.AsType[*tensor.FieldError](err); ok {
		return violation(e.Field, "expected "+e.Want+", got "+e.Got)
	}
	if e, ok := errors.AsType[*routing.NotFoundError](err); ok {
		return fault{code: codes.NotFound, detail: &errdetails.ResourceInfo{
			ResourceType: string(e.Kind), ResourceName: resourceName(e.Name), Owner: e.Model,
			Description: predict.Clip(e.Error()),
		}}
	}
	if e, ok := errors.AsType[*sharedsched.Refusal](err); ok {
		return refusalFault(e)
	}
	if e, ok := errors.AsType[*predict.ServerFullError](err); ok {
		return fault{
			code: codes.ResourceExhausted, reason: "SERVER_FULL", retry: retryWhenFull, pushback: true,
			numbers: []string{"max_concurrent_requests", strconv.Itoa(e.Limit)},
		}
	}
	if f, ok := messageFault(err); ok {
		return f
	}
	if _, ok := errors.AsType[*routing.FailedError](err); ok {
		return fault{code: codes.FailedPrecondition}
	}
	if _, ok := errors.AsType[*routing.RolledBackError](err); ok {
		return fault{code: codes.FailedPrecondition}
	}
	if f, ok := changeFault(err); ok {
		return f
	}
	if _, ok := errors.AsType[*routing.NotReadyError](err); ok {
		return fault{code: codes.Unavailable, retry: retryUnavailable}
	}
	for _, unavailable := range []error{
		// A lost device is asked for before ModelError, which may wrap it.
		catalog.ErrDeviceLost, catalog.ErrNotReady,
		sharedsched.ErrRemoved, sharedsched.ErrDraining, sharedsched.ErrClosed,
	} {
		if errors.Is(err, unavailable) {
			return fault{code: codes.Unavailable, retry: retryUnavailable}
		}
	}
	if _, ok := errors.AsType[*catalog.ModelError](err); ok {
		return fault{code: codes.Internal, reason: "MODEL_FAILED"}
	}
	switch {
	case errors.Is(err, sharedsched.ErrTooManyRows), errors.Is(err, sharedsched.ErrNoRows):
		return violation("inputs", err.Error())
	case errors.Is(err, predict.ErrSuperseded):
		return fault{code: codes.Aborted, reason: "SUPERSEDED"}
	case errors.Is(err, sharedsched.ErrExpired), errors.Is(err, context.DeadlineExceeded):
		return fault{code: codes.DeadlineExceeded}
	case errors.Is(err, context.Canceled):
		return fault{code: codes.Canceled}
	}
	return fault{code: codes.Internal}
}

// resourceName returns a harmless name as it is and any other as messages quote it.
func resourceName(name string) string {
	if quoted := routing.Quote(name); quoted != `"`+name+`"` {
		return quoted
	}
	return name
}
