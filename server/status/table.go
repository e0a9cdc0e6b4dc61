package status

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"strings"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"

	"github.com/weftserve/weft/runtime/catalog"
	"github.com/weftserve/weft/runtime/tensor"
	"github.com/weftserve/weft/server/access"
	"github.com/weftserve/weft/server/episode"
	"github.com/weftserve/weft/server/predict"
	"github.com/weftserve/weft/server/protect"
	"github.com/weftserve/weft/server/rollout"
	"github.com/weftserve/weft/server/routing"
	"github.com/weftserve/weft/sharedsched"
)

// entry is a row of the error table: it returns the fault of an error that it is about, and whether it is about that.
// It looks through wrapped errors.
type entry func(error) (fault, bool)

// of is the row of a type of errors. translate makes the fault, with the error's own numbers.
func of[E error](translate func(E) fault) entry {
	return func(err error) (fault, bool) {
		if e, ok := errors.AsType[E](err); ok {
			return translate(e), true
		}
		return fault{}, false
	}
}

// all is the row of a type of errors that all have the same fault.
func all[E error](f fault) entry { return of(func(E) fault { return f }) }

// some is the row of single errors that all have the same fault.
func some(f fault, those ...error) entry {
	return func(err error) (fault, bool) {
		return f, slices.ContainsFunc(those, func(one error) bool { return errors.Is(err, one) })
	}
}

var (
	// notFound: a name in the call is not there.
	notFound = fault{code: codes.NotFound}
	// failed: what the server serves must change first, so a retry alone does not help.
	failed = fault{code: codes.FailedPrecondition}
	// unavailable: this server cannot answer now, and will; another one may.
	unavailable = fault{code: codes.Unavailable, retry: retryUnavailable}
)

// table is the error table: the first row that is about an error decides. The order of rows matters where one error
// wraps another.
var table = []entry{
	of(loadFault), // before the errors that it may wrap
	of(func(e *tensor.FieldError) fault { return violation(e.Field, "expected "+e.Want+", got "+e.Got) }),
	of(func(e *routing.NotFoundError) fault {
		return fault{code: codes.NotFound, detail: &errdetails.ResourceInfo{
			ResourceType: string(e.Kind), ResourceName: resourceName(e.Name), Owner: e.Model,
			Description: predict.Clip(e.Error()),
		}}
	}),
	of(func(e *episode.LostError) fault {
		return fault{code: codes.NotFound, reason: "EPISODE_LOST", numbers: []string{"episode", resourceName(e.Episode)}}
	}),
	of(func(e *episode.StaleError) fault {
		return fault{code: codes.FailedPrecondition, reason: "STALE_STEP", numbers: []string{
			"step", strconv.FormatUint(e.Step, 10), "latest", strconv.FormatUint(e.Latest, 10),
		}}
	}),
	// There is no room, from here to protect.CrowdedError: callers may try again.
	of(func(e *episode.FullError) fault {
		return fault{code: codes.ResourceExhausted, reason: "EPISODES_FULL", retry: retryWhenFull, pushback: true}
	}),
	of(refusalFault),
	of(func(e *predict.ServerFullError) fault {
		return fault{
			code: codes.ResourceExhausted, reason: "SERVER_FULL", retry: retryWhenFull, pushback: true,
			numbers: []string{"max_concurrent_requests", strconv.Itoa(e.Limit)},
		}
	}),
	// Of bodies over HTTP: there is no trailer, so no pushback.
	all[*CrowdedError](fault{code: codes.ResourceExhausted, reason: "CONNECTION_CROWDED", retry: retryWhenFull}),
	all[*protect.ThrottledError](fault{code: codes.ResourceExhausted, reason: "THROTTLED", retry: retryWhenFull}),
	all[*protect.CrowdedError](fault{
		code: codes.ResourceExhausted, reason: "CONNECTION_CROWDED", retry: retryWhenFull, pushback: true,
	}),

	// who may call, and how much
	of(func(e *access.ProofError) fault {
		code := codes.Unauthenticated
		if e.Reason == access.Stranger { // the proof is good, but nobody in the access file has it
			code = codes.PermissionDenied
		}
		return fault{code: code, reason: string(e.Reason)}
	}),
	// The token may be good: the keys of its issuer cannot be fetched to tell.
	all[*access.UnreachableError](fault{
		code: codes.Unavailable, reason: "ISSUER_UNREACHABLE", retry: retryUnavailable,
	}),
	of(func(e *access.DeniedError) fault {
		return fault{code: codes.PermissionDenied, reason: "PERMISSION_DENIED", numbers: []string{
			"identity", e.Identity, "permission", e.Lacks.String(), "model", resourceName(e.Model),
		}}
	}),
	of(func(e *access.PriorityError) fault {
		return fault{code: codes.PermissionDenied, reason: "PRIORITY_DENIED", numbers: []string{
			"identity", e.Identity, "max_priority", e.Most,
		}}
	}),
	of(quotaFault),

	// messages that cannot be read or sent
	of(func(e *AnswerTooLargeError) fault {
		return fault{
			code: codes.ResourceExhausted, reason: "ANSWER_TOO_LARGE", retry: -1, pushback: true,
			numbers: []string{"bytes", strconv.Itoa(e.Bytes), "max_message_bytes", strconv.Itoa(e.Limit)},
		}
	}),
	of(func(e *tensor.TooLargeError) fault { // the same, found before the outputs were copied
		return fault{
			code: codes.ResourceExhausted, reason: "ANSWER_TOO_LARGE", retry: -1, pushback: true,
			numbers: []string{"bytes", strconv.Itoa(e.Bytes), "max_message_bytes", strconv.Itoa(e.Most)},
		}
	}),
	all[*BrokenMessageError](fault{code: codes.InvalidArgument}),
	all[*UnknownMethodError](fault{code: codes.Unimplemented}),
	all[*UnsupportedError](fault{code: codes.Unimplemented}),
	all[*AbsentError](notFound),
	all[*ViewersError](fault{code: codes.ResourceExhausted, reason: "TOO_MANY_VIEWERS", retry: retryUnavailable}),
	all[*ExistsError](fault{code: codes.AlreadyExists}),
	all[*ElsewhereError](fault{code: codes.PermissionDenied, reason: "PERMISSION_DENIED"}),
	of(func(e *MessageTooLargeError) fault {
		f := fault{code: codes.ResourceExhausted, reason: messageTooLarge, retry: -1, pushback: true}
		if !e.Inflated {
			f.numbers = []string{"bytes", strconv.Itoa(e.Bytes)}
		}
		f.numbers = append(f.numbers, "max_message_bytes", strconv.Itoa(e.Limit))
		return f
	}),
	of(func(e *catalog.ElsewhereError) fault {
		f := fault{
			code: codes.Unavailable, reason: "MODEL_ELSEWHERE", numbers: []string{"replicas", strings.Join(e.Replicas, ",")},
		}
		if len(e.Replicas) == 0 {
			f = fault{code: codes.FailedPrecondition, reason: "MODEL_NOWHERE"}
		}
		return f
	}),
	all[*routing.FailedError](failed),
	of(func(e *routing.TakenOutError) fault {
		return fault{
			code: codes.Unavailable, reason: "TAKEN_OUT", retry: max(time.Until(e.Again), retryUnavailable),
		}
	}),
	all[*routing.RolledBackError](failed),

	// calls that change something
	of(func(e *catalog.TrafficError) fault {
		return violation("traffic."+e.Field, "expected "+e.Want+", got "+e.Got)
	}),
	// Aborted asks callers to read again what they wanted to change, and to decide again.
	of(func(e *catalog.RevisionError) fault {
		return fault{code: codes.Aborted, reason: "REVISION_CHANGED", numbers: []string{
			"expected", strconv.FormatUint(e.Expected, 10), "current", strconv.FormatUint(e.Current, 10),
		}}
	}),
	of(func(e *catalog.NotReadyError) fault {
		code := codes.FailedPrecondition
		if e.State == 0 { // there is no such version
			code = codes.NotFound
		}
		return fault{code: code, reason: "VERSION_NOT_READY"}
	}),
	some(notFound, catalog.ErrUnknown),
	all[*catalog.KeepError](fault{code: codes.Unavailable, reason: "NOT_KEPT"}),
	some(fault{code: codes.FailedPrecondition, reason: "VERSION_BUSY", retry: retryUnavailable}, catalog.ErrBusy),
	all[*catalog.InUseError](fault{code: codes.FailedPrecondition, reason: "VERSION_IN_USE"}),
	of(uploadFault),
	of(func(e *rollout.PlanError) fault {
		return violation("rollout."+e.Field, "expected "+e.Want+", got "+e.Got)
	}),
	all[*rollout.UnknownError](notFound),
	some(notFound, rollout.ErrNone),
	all[*rollout.NotReadyError](failed),
	some(failed, rollout.ErrRunning, rollout.ErrEnded),

	all[*routing.NotReadyError](unavailable),
	// A lost device is asked for before ModelError, which may wrap it.
	some(unavailable, catalog.ErrDeviceLost, catalog.ErrNotReady, catalog.ErrUntried, catalog.ErrNotOpen,
		sharedsched.ErrRemoved, sharedsched.ErrClosed),
	// Nothing was accepted: another server may be asked at once.
	some(fault{code: codes.Unavailable, reason: "DRAINING", retry: retryUnavailable}, sharedsched.ErrDraining),
	// Two versions fail on the input, so the input is wrong; a failure of one may be the model's.
	all[*predict.InputError](fault{code: codes.InvalidArgument, reason: inputFailed}),
	of(func(e *catalog.ModelError) fault {
		if e.OutOfMemory() {
			// The same rows would run out of memory again.
			f := fault{code: codes.ResourceExhausted, reason: "OUT_OF_MEMORY", retry: -1, pushback: true}
			if e.Exceeded > 0 {
				f.numbers = []string{"memory_bytes", strconv.FormatInt(e.Exceeded, 10)}
			}
			return f
		}
		if e.Crashed {
			f := fault{code: codes.Internal, reason: "ENGINE_CRASHED"}
			if e.Signal != "" {
				f.numbers = []string{"signal", e.Signal}
			}
			return f
		}
		return fault{code: codes.Internal, reason: "MODEL_FAILED"}
	}),
	func(err error) (fault, bool) {
		if errors.Is(err, sharedsched.ErrTooManyRows) || errors.Is(err, sharedsched.ErrNoRows) {
			return violation("inputs", err.Error()), true
		}
		return fault{}, false
	},
	// From here on the request ended before there was an answer.
	some(fault{code: codes.Aborted, reason: "SUPERSEDED"}, predict.ErrSuperseded),
	some(fault{code: codes.DeadlineExceeded}, sharedsched.ErrExpired, context.DeadlineExceeded),
	some(fault{code: codes.Canceled}, context.Canceled),
}

// faultOf looks an error up in the table. One that is not there is a mistake of the server: INTERNAL.
func faultOf(err error) fault {
	for _, row := range table {
		if f, ok := row(err); ok {
			return f
		}
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
