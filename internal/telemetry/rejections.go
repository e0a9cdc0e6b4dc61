package telemetry

import (
	"context"
	"errors"

	"github.com/weftserve/weft/runtime/catalog"
	"github.com/weftserve/weft/sharedsched"
)

// Reasons of rejections, beyond those of the scheduler's refusals.
const (
	rejectedExpired     = "EXPIRED"       // its limit passed in the queue
	rejectedCancelled   = "CANCELLED"     // its caller gave up, or a newer request of its stream took over
	rejectedDraining    = "DRAINING"      // the server is shutting down
	rejectedClosed      = "CLOSED"        // the scheduler stopped before it could run
	rejectedTooManyRows = "TOO_MANY_ROWS" // more rows than the version takes
)

// rejections are all reasons, for which labels are made beforehand.
var rejections = []string{
	sharedsched.RefusedQueueFull.String(), sharedsched.RefusedDeadline.String(), sharedsched.RefusedForGoodput.String(),
	rejectedExpired, rejectedCancelled, rejectedDraining, rejectedClosed, rejectedTooManyRows,
}

// rejection returns the reason for which a request that ended with err was not executed. It is "" if it was executed,
// or was not handed to the scheduler. A request whose version stopped being ready is among the latter, since it is
// routed again. ctx is the request's.
func rejection(ctx context.Context, err error) string {
	// The model ran. Its error may wrap one that looks like the scheduler's.
	if _, failed := errors.AsType[*catalog.ModelError](err); failed {
		return "" // regardless of the error that it wraps
	}
	if refusal, ok := errors.AsType[*sharedsched.Refusal](err); ok {
		return refusal.Reason.String()
	}
	switch {
	case errors.Is(err, sharedsched.ErrExpired), errors.Is(err, context.DeadlineExceeded):
		return rejectedExpired
	case errors.Is(err, sharedsched.ErrDraining):
		return rejectedDraining
	case errors.Is(err, sharedsched.ErrClosed):
		return rejectedClosed
	case errors.Is(err, sharedsched.ErrTooManyRows):
		return rejectedTooManyRows
	case errors.Is(err, context.Cause(ctx)): // no error is nil, the cause while ctx has not ended
		return rejectedCancelled
	}
	return ""
}
