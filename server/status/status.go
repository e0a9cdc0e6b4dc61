// Package status is the error table of the API: which error of the house is which gRPC code, with which reason and
// details.
//
// Handlers return errors of the packages that find them. Fail and Of look such an error up in the table (table.go),
// which gives a fault, and make a status of it. An error that callers should tell from others has a type, in the
// package that finds it or in message.go, and a row in the table; without a row it is INTERNAL. Its text says what was
// wrong, what was expected, and what to do. The codes, the reasons and the numbers are part of the API: clients branch
// on them.
//
// Whether a caller should try again is said three times: by the code, by the detail RetryInfo, which says when, and for
// gRPC's own retries by the trailer of Fail.
//
// No other package knows gRPC's codes. They are the names that metrics, recordings and rollouts use for the requests of
// every protocol.
package status

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/protoadapt"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/weftserve/weft/runtime/catalog"
	"github.com/weftserve/weft/server/predict"
	"github.com/weftserve/weft/server/protect"
	"github.com/weftserve/weft/server/routing"
)

const (
	errorDomain = "weft" // of each ErrorInfo
	// pushbackTrailer is the trailer by which a server steers gRPC's own retries: milliseconds to wait, or doNotRetry
	// (proposal A6 in github.com/grpc/proposal).
	pushbackTrailer = "grpc-retry-pushback-ms"
	doNotRetry      = "-1"
)

// Of returns the status that a caller gets for an error, without the trailer that Fail sets. It is for answers on a
// stream, and for refusals outside of a handler.
func Of(err error, at predict.Place) *status.Status {
	return faultOf(err).status(err, at)
}

// status makes the status of an error that has this fault. at is what the request was about, as far as that was known.
func (f fault) status(err error, at predict.Place) *status.Status {
	var details []protoadapt.MessageV1
	if f.detail != nil {
		details = append(details, f.detail)
	}
	if f.reason != "" {
		details = append(details, &errdetails.ErrorInfo{
			Reason: f.reason, Domain: errorDomain, Metadata: placeMetadata(&at, f.numbers),
		})
	}
	if f.retry > 0 {
		details = append(details, &errdetails.RetryInfo{RetryDelay: durationpb.New(f.retry)})
	}
	text := f.text(err)
	// The text must say by itself what it is about: many clients show nothing else.
	if f.unnamed && at.Model != "" {
		text = fmt.Sprintf("model %s version %d: %s", routing.Quote(at.Model), at.Version, text)
	}
	if f.remedy != "" {
		text += " (" + f.remedy + ")"
	}
	st := status.New(f.code, predict.Clip(text))
	if detailed, err := st.WithDetails(details...); err == nil {
		return detailed
	}
	// Only text that is not UTF-8 cannot be marshalled. The code matters more than the details.
	return st
}

// text returns the error as the caller may read it. A text about the request repeats that as it came, and holds nothing
// of the machine. All else may have come from files, engines and drivers, and goes through catalog.Public.
func (f fault) text(err error) string {
	if (f.code == codes.InvalidArgument || f.code == codes.NotFound) && f.reason != inputFailed {
		return err.Error()
	}
	return catalog.Public(err)
}

// Fail returns the error with which a unary call ends. Where the fault has a pushback it also sets the trailer that
// tells gRPC's own retries when to try again, so it must be called before the handler returns.
func Fail(ctx context.Context, err error, at predict.Place) error {
	f := faultOf(err)
	if f.pushback {
		wait := doNotRetry
		if f.retry > 0 {
			wait = strconv.FormatInt(max(1, f.retry.Milliseconds()), 10) // 0 would be at once
		}
		// Fails only when ctx is not a call's, as in a unit test: then there are no retries either.
		_ = grpc.SetTrailer(ctx, metadata.Pairs(pushbackTrailer, wait))
	}
	return f.status(err, at).Err()
}

// OfCaller reports whether a call that ended with an error was refused for what it asks, who asks it, or how much that
// caller asks. Such a call would have been refused on an idle server, too.
func OfCaller(err error) bool {
	st := status.Convert(err)
	switch st.Code() {
	case codes.NotFound:
		return reasonOf(st) != "EPISODE_LOST" // a server that begins anew has none
	case codes.InvalidArgument, codes.AlreadyExists, codes.PermissionDenied, codes.Unauthenticated,
		codes.OutOfRange, codes.Unimplemented:
		return true
	case codes.ResourceExhausted, codes.Unavailable: // the latter by AsTriton
		reason := reasonOf(st)
		return reason == messageTooLarge || reason == quotaExceeded
	default:
		return false
	}
}

// reasonOf returns the reason that an error names, "" for none.
func reasonOf(st *status.Status) string {
	for _, d := range st.Details() {
		if d, is := d.(*errdetails.ErrorInfo); is {
			return d.GetReason()
		}
	}
	return ""
}

// Explain returns an error in the terms of metrics, recordings and rollouts. Each error has a reason there: one without
// its own has its code's. Overload says that the server had no time or no room for the request.
func Explain(err error) predict.Explanation {
	f := faultOf(err)
	_, unread := errors.AsType[*protect.ThrottledError](err)
	e := predict.Explanation{
		Code: f.code.String(), Lacked: unread || predict.Lacked(err), Text: f.text(err), Reason: f.reason,
	}
	if e.Reason == "" {
		e.Reason = constant(f.code)
	}
	switch f.code { //nolint:exhaustive // the others are for other reasons
	case codes.ResourceExhausted, codes.DeadlineExceeded, codes.Unavailable:
		e.Overload = true
	}
	return e
}

// constant names the reason of an error that has none of its own, as the metrics spell it: the code's name in capitals,
// such as NOT_FOUND. Two have names that say more.
func constant(c codes.Code) string {
	switch c { //nolint:exhaustive // the others are as the code is
	case codes.DeadlineExceeded:
		return "EXPIRED"
	case codes.Canceled:
		return "CANCELLED"
	}
	var b strings.Builder
	for i, r := range c.String() {
		if i > 0 && unicode.IsUpper(r) {
			b.WriteByte('_')
		}
		b.WriteRune(unicode.ToUpper(r))
	}
	return b.String()
}

// placeMetadata returns a place as ErrorInfo metadata, with more pairs of key and value.
func placeMetadata(p *predict.Place, more []string) map[string]string {
	m := make(map[string]string, 3+len(more)/2)
	if p.Model != "" {
		m["model"] = p.Model
		if p.Version != 0 {
			m["version"] = strconv.FormatInt(p.Version, 10)
		}
		if p.Slot != "" {
			m["slot"] = p.Slot
		}
	}
	for i := 0; i+1 < len(more); i += 2 {
		m[more[i]] = more[i+1]
	}
	return m
}

// AsTriton returns the error of a call with the code that Triton has for it: where there is no capacity, or the time is
// over, that is UNAVAILABLE (docs/protocol in github.com/triton-inference-server/server). What a caller should not try
// again keeps its code.
func AsTriton(err error) error {
	p := status.Convert(err).Proto()
	again := func(d any) bool { _, is := d.(*errdetails.RetryInfo); return is }
	switch codes.Code(p.GetCode()) {
	case codes.ResourceExhausted:
		if !slices.ContainsFunc(status.FromProto(p).Details(), again) {
			return err
		}
	case codes.DeadlineExceeded:
	default:
		return err
	}
	p.Code = int32(codes.Unavailable)
	return status.FromProto(p).Err()
}
