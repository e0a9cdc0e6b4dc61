package server

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	rpcstatus "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/protoadapt"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/weftserve/weft/runtime/catalog"
	"github.com/weftserve/weft/runtime/tensor"
	"github.com/weftserve/weft/server/rollout"
	"github.com/weftserve/weft/server/routing"
	"github.com/weftserve/weft/sharedsched"
)

// This file decides what a caller learns of an error: the gRPC code, the details, and whether to try again. No other file
// knows gRPC status codes.

// ErrSuperseded is the cause with which a request is cancelled when a newer one of its stream takes over.
var ErrSuperseded = errors.New("a newer request of this stream and episode took over")

const (
	errorDomain = "weft"

	// maxMessage bounds the text of an error in bytes. It travels twice in one header block, escaped, and some clients refuse
	// more than 8 KiB of those.
	maxMessage = 1024

	// What callers are told to wait where nothing better is known.
	retryWhenFull     = 100 * time.Millisecond
	retryUnavailable  = time.Second
	pushbackTrailer   = "grpc-retry-pushback-ms"
	doNotRetry        = "-1"
	retryDetailsLimit = time.Minute
)

// place is what an error is about, as far as it is known.
type place struct {
	model   string
	version int64
	slot    string
	// As in the answer's execution.
	degraded   bool
	failedOver int64
}

// metadata returns the place as ErrorInfo metadata, with more pairs of key and value.
func (p place) metadata(more ...string) map[string]string {
	m := make(map[string]string, 3+len(more)/2)
	if p.model != "" {
		m["model"] = p.model
		if p.version != 0 {
			m["version"] = strconv.FormatInt(p.version, 10)
		}
		if p.slot != "" {
			m["slot"] = p.slot
		}
	}
	for i := 0; i+1 < len(more); i += 2 {
		m[more[i]] = more[i+1]
	}
	return m
}

// fault is an error in gRPC's terms.
type fault struct {
	code    codes.Code
	reason  string               // of ErrorInfo; "" for none
	numbers []string             // of ErrorInfo's metadata: key, value, ...
	detail  protoadapt.MessageV1 // one more; may be nil
	// unnamed: the error does not say itself of which model and version it is.
	unnamed bool
	remedy  string // a setting that may be changed; "" for none
	// retry > 0 asks the caller to wait so long, < 0 not to try again at all.
	retry time.Duration
	// pushback repeats retry for gRPC's own retries. Without it they follow the client's policy: an UNAVAILABLE server should
	// be left for another one at once.
	pushback bool
}

// faultOf is the error table.
func faultOf(err error) fault {
	if e, ok := errors.AsType[*catalog.LoadError](err); ok { // before what it may wrap
		return loadFault(e)
	}
	if e, ok := errors.AsType[*tensor.FieldError](err); ok {
		return fault{code: codes.InvalidArgument, detail: &errdetails.BadRequest{FieldViolations: []*errdetails.BadRequest_FieldViolation{{
			Field: e.Field, Description: clip("expected " + e.Want + ", got " + e.Got),
		}}}}
	}
	if e, ok := errors.AsType[*routing.NotFoundError](err); ok {
		return fault{code: codes.NotFound, detail: &errdetails.ResourceInfo{
			ResourceType: string(e.Kind), ResourceName: resourceName(e.Name), Owner: e.Model, Description: clip(e.Error()),
		}}
	}
	if e, ok := errors.AsType[*sharedsched.Refusal](err); ok {
		return refusalFault(e)
	}
	if e, ok := errors.AsType[*serverFullError](err); ok {
		return fault{
			code: codes.ResourceExhausted, reason: "SERVER_FULL", retry: retryWhenFull, pushback: true,
			numbers: []string{"max_concurrent_requests", strconv.Itoa(e.limit)},
		}
	}
	if e, ok := errors.AsType[*answerTooLargeError](err); ok {
		return fault{
			code: codes.ResourceExhausted, reason: "ANSWER_TOO_LARGE", retry: -1, pushback: true,
			numbers: []string{"bytes", strconv.Itoa(e.bytes), "max_message_bytes", strconv.Itoa(e.limit)},
		}
	}
	if _, ok := errors.AsType[*brokenMessageError](err); ok {
		return fault{code: codes.InvalidArgument}
	}
	if e, ok := errors.AsType[*messageTooLargeError](err); ok {
		f := fault{code: codes.ResourceExhausted, reason: "MESSAGE_TOO_LARGE", retry: -1, pushback: true}
		if !e.inflated {
			f.numbers = []string{"bytes", strconv.Itoa(e.bytes)}
		}
		f.numbers = append(f.numbers, "max_message_bytes", strconv.Itoa(e.limit))
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
		catalog.ErrDeviceLost, catalog.ErrNotReady, sharedsched.ErrRemoved, sharedsched.ErrDraining, sharedsched.ErrClosed,
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
		return fault{code: codes.InvalidArgument, detail: &errdetails.BadRequest{FieldViolations: []*errdetails.BadRequest_FieldViolation{{
			Field: "inputs", Description: clip(err.Error()),
		}}}}
	case errors.Is(err, ErrSuperseded):
		return fault{code: codes.Aborted, reason: "SUPERSEDED"}
	case errors.Is(err, sharedsched.ErrExpired), errors.Is(err, context.DeadlineExceeded):
		return fault{code: codes.DeadlineExceeded}
	case errors.Is(err, context.Canceled):
		return fault{code: codes.Canceled}
	}
	return fault{code: codes.Internal}
}

// changeFault is the part of the table for calls that change something.
func changeFault(err error) (fault, bool) {
	if e, ok := errors.AsType[*catalog.TrafficError](err); ok {
		return fault{code: codes.InvalidArgument, detail: &errdetails.BadRequest{FieldViolations: []*errdetails.BadRequest_FieldViolation{{
			Field: "traffic." + e.Field, Description: clip("expected " + e.Want + ", got " + e.Got),
		}}}}, true
	}
	if e, ok := errors.AsType[*catalog.RevisionError](err); ok {
		return fault{
			code: codes.Aborted, reason: "REVISION_CHANGED",
			numbers: []string{"expected", strconv.FormatUint(e.Expected, 10), "current", strconv.FormatUint(e.Current, 10)},
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
		return fault{code: codes.InvalidArgument, detail: &errdetails.BadRequest{FieldViolations: []*errdetails.BadRequest_FieldViolation{{
			Field: "rollout." + e.Field, Description: clip("expected " + e.Want + ", got " + e.Got),
		}}}}, true
	}
	if _, ok := errors.AsType[*rollout.UnknownError](err); ok || errors.Is(err, rollout.ErrNone) {
		return fault{code: codes.NotFound}, true
	}
	if _, ok := errors.AsType[*rollout.NotReadyError](err); ok || errors.Is(err, rollout.ErrRunning) || errors.Is(err, rollout.ErrEnded) {
		return fault{code: codes.FailedPrecondition}, true
	}
	return fault{}, false
}

func loadFault(err *catalog.LoadError) fault {
	f := fault{code: codes.FailedPrecondition, reason: "LOAD_FAILED"}
	if e, ok := errors.AsType[*catalog.MemoryError](err); ok {
		f.reason = "MODEL_MEMORY"
		f.numbers = []string{"need", strconv.FormatInt(e.Need, 10), "in_use", strconv.FormatInt(e.InUse, 10), "budget", strconv.FormatInt(e.Budget, 10)}
	}
	return f
}

func refusalFault(e *sharedsched.Refusal) fault {
	f := fault{code: codes.ResourceExhausted, reason: e.Reason.String(), retry: e.RetryAfter, pushback: true, unnamed: true}
	switch e.Reason {
	case sharedsched.RefusedForGoodput:
		if e.Predicted > 0 { // else it was given up later, for the sake of others, and has no numbers of its own
			f.numbers = predictedNumbers(e)
		}
	case sharedsched.RefusedDeadline:
		f.numbers = predictedNumbers(e)
		f.retry = -1
	case sharedsched.RefusedQueueFull:
		if e.MaxQueuedBytes > 0 {
			f.numbers = []string{"max_queued_bytes", strconv.FormatInt(e.MaxQueuedBytes, 10), "queued_bytes", strconv.FormatInt(e.QueuedBytes, 10)}
			f.remedy = "--max-queued-bytes lets more wait"
		} else {
			f.numbers = []string{"max_queue", strconv.Itoa(e.MaxQueue), "queued", strconv.Itoa(e.Queued)}
			if e.Keys == 0 { // else it is not that limit
				f.remedy = "batching.max_queue lets more wait"
			}
		}
	}
	if f.retry == 0 {
		f.retry = retryWhenFull
	}
	f.retry = min(f.retry, retryDetailsLimit)
	return f
}

func predictedNumbers(e *sharedsched.Refusal) []string {
	return []string{"predicted_ms", milliseconds(e.Predicted), "limit_ms", milliseconds(e.Limit)}
}

// statusOf returns what a caller is told of err.
func statusOf(err error, at place) *status.Status {
	return faultOf(err).status(err, at)
}

func (f fault) status(err error, at place) *status.Status {
	var details []protoadapt.MessageV1
	if f.detail != nil {
		details = append(details, f.detail)
	}
	if f.reason != "" {
		details = append(details, &errdetails.ErrorInfo{Reason: f.reason, Domain: errorDomain, Metadata: at.metadata(f.numbers...)})
	}
	if f.retry > 0 {
		details = append(details, &errdetails.RetryInfo{RetryDelay: durationpb.New(f.retry)})
	}
	text := f.text(err)
	if f.unnamed && at.model != "" {
		text = fmt.Sprintf("model %s version %d: %s", routing.Quote(at.model), at.version, text)
	}
	if f.remedy != "" {
		text += " (" + f.remedy + ")"
	}
	st := status.New(f.code, clip(text))
	if detailed, err := st.WithDetails(details...); err == nil {
		return detailed
	}
	// Only text that is not UTF-8 cannot be marshalled. The code matters more than the details.
	return st
}

// text returns what the caller may read of an error. What is about the request repeats that as it came, and holds nothing of the
// machine; all else may have come from files, engines and drivers.
func (f fault) text(err error) string {
	if f.code == codes.InvalidArgument || f.code == codes.NotFound {
		return err.Error()
	}
	return catalog.Public(err)
}

// fail returns the error with which a unary call ends, and tells gRPC's own retries when to try again.
func fail(ctx context.Context, err error, at place) error {
	f := faultOf(err)
	if f.pushback {
		wait := doNotRetry
		if f.retry > 0 {
			wait = strconv.FormatInt(max(1, f.retry.Milliseconds()), 10)
		}
		// Fails only when ctx is not a call's, as in a unit test: then nobody retries either.
		_ = grpc.SetTrailer(ctx, metadata.Pairs(pushbackTrailer, wait))
	}
	return f.status(err, at).Err()
}

// inBand returns the error as a stream carries it beside answers.
func inBand(err error, at place) *rpcstatus.Status { return statusOf(err, at).Proto() }

// codeName returns the name of the code that err comes to, "OK" for nil.
func codeName(err error) string {
	if err == nil {
		return codes.OK.String()
	}
	return faultOf(err).code.String()
}

// isOverload reports whether err says that there was not the capacity to answer, or to answer in time.
func isOverload(err error) bool {
	if err == nil {
		return false
	}
	switch faultOf(err).code { //nolint:exhaustive // the others are for other reasons
	case codes.ResourceExhausted, codes.DeadlineExceeded, codes.Unavailable:
		return true
	}
	return false
}

// resourceName returns a harmless name as it is and any other as messages quote it.
func resourceName(name string) string {
	if quoted := routing.Quote(name); quoted != `"`+name+`"` {
		return quoted
	}
	return name
}

func milliseconds(d time.Duration) string {
	return strconv.FormatFloat(float64(d.Microseconds())/1e3, 'f', -1, 64)
}

// clip makes text valid UTF-8, which gRPC requires of messages, and cuts it to maxMessage bytes.
func clip(text string) string {
	const cut = "..."
	text = strings.ToValidUTF8(text, "�")
	if len(text) <= maxMessage {
		return text
	}
	end := maxMessage - len(cut)
	for !utf8.RuneStart(text[end]) {
		end--
	}
	return text[:end] + cut
}
