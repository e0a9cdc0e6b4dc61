package status

import (
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/protoadapt"

	"github.com/weftserve/weft/server/predict"
)

// The waits that callers are told where nothing better is known.
const (
	retryWhenFull     = 100 * time.Millisecond
	retryUnavailable  = time.Second
	retryDetailsLimit = time.Minute
)

// fault is an error in gRPC's terms.
type fault struct {
	code    codes.Code
	reason  string               // of ErrorInfo; "" for none
	numbers []string             // of ErrorInfo's metadata: key, value, ...
	detail  protoadapt.MessageV1 // one more; may be nil
	// unnamed: the error does not say itself which model and version it is about.
	unnamed bool
	remedy  string // a setting that may be changed; "" for none
	// retry > 0 asks the caller to wait so long, < 0 not to try again at all.
	retry time.Duration
	// pushback repeats retry for gRPC's own retries. Without it they follow the client's policy: an UNAVAILABLE server
	// should be left for another one at once.
	pushback bool
}

// inputFailed is the reason of what a model said of an input, which is no text about the request.
const inputFailed = "INPUT_FAILED"

// violation is the fault of a request that is wrong in a field.
func violation(field, description string) fault {
	return fault{code: codes.InvalidArgument, detail: &errdetails.BadRequest{
		FieldViolations: []*errdetails.BadRequest_FieldViolation{{
			Field: field, Description: predict.Clip(description),
		}},
	}}
}
