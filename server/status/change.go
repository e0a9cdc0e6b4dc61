package status

import (
	"errors"
	"strconv"

	"google.golang.org/grpc/codes"

	"github.com/weftserve/weft/runtime/catalog"
	"github.com/weftserve/weft/server/rollout"
)

// changeFault is the part of the table for calls that change something.
func changeFault(err error) (fault, bool) {
	if e, ok := errors.AsType[*catalog.TrafficError](err); ok {
		return violation("traffic."+e.Field, "expected "+e.Want+", got "+e.Got), true
	}
	if e, ok := errors.AsType[*catalog.RevisionError](err); ok {
		return fault{
			code: codes.Aborted, reason: "REVISION_CHANGED",
			numbers: []string{
				"expected", strconv.FormatUint(e.Expected, 10), "current", strconv.FormatUint(e.Current, 10),
			},
		}, true
	}
	if e, ok := errors.AsType[*catalog.NotReadyError](err); ok {
		code := codes.FailedPrecondition
		if e.State == 0 {
			code = codes.NotFound
		}
		return fault{code: code, reason: "VERSION_NOT_READY"}, true
	}
	if errors.Is(err, catalog.ErrUnknown) {
		return fault{code: codes.NotFound}, true
	}
	if _, ok := errors.AsType[*catalog.KeepError](err); ok {
		return fault{code: codes.Unavailable, reason: "NOT_KEPT"}, true
	}
	if errors.Is(err, catalog.ErrBusy) {
		return fault{code: codes.FailedPrecondition, reason: "VERSION_BUSY", retry: retryUnavailable}, true
	}
	if _, ok := errors.AsType[*catalog.InUseError](err); ok {
		return fault{code: codes.FailedPrecondition, reason: "VERSION_IN_USE"}, true
	}
	if e, ok := errors.AsType[*rollout.PlanError](err); ok {
		return violation("rollout."+e.Field, "expected "+e.Want+", got "+e.Got), true
	}
	if _, ok := errors.AsType[*rollout.UnknownError](err); ok || errors.Is(err, rollout.ErrNone) {
		return fault{code: codes.NotFound}, true
	}
	_, ok := errors.AsType[*rollout.NotReadyError](err)
	if ok || errors.Is(err, rollout.ErrRunning) || errors.Is(err, rollout.ErrEnded) {
		return fault{code: codes.FailedPrecondition}, true
	}
	return fault{}, false
}
