package status

import (
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/protoadapt"

	"github.com/weftserve/weft/server/predict"
)

// The waits that callers are told.
const (
	// retryWhenFull is the wait where a queue or a limit is full and nothing better is known: room comes with the next
	// answers.
	retryWhenFull = 100 * time.Millisecond
	// retryUnavailable is the wait where something must change first, such as a version that is being loaded.
	retryUnavailable = time.Second
	// retryDetailsLimit bounds every wait: an estimate that is longer is worth no more.
	retryDetailsLimit = time.Minute
)

// fault is an error in gRPC's terms: what its status says, beside the text of the error itself.
type fault struct {
	code    codes.Code
	reason  string               // of ErrorInfo, which callers may branch on; "": there is no ErrorInfo
	numbers []string             // of ErrorInfo's metadata, beside the place: key, value, ...
	detail  protoadapt.MessageV1 // one more detail, such as a BadRequest; may be nil
	// unnamed: the error does not say itself which model and version it is about, so the text of the status does.
	unnamed bool
	remedy  string // a setting of the operator that helps, appended to the text; "" for none
	// retry > 0 asks the caller to wait so long, < 0 not to try again at all. 0 says nothing of it.
	retry time.Duration
	// pushback repeats retry for gRPC's own retries. Without it they follow the client's policy: an UNAVAILABLE server
	// should be left for another one at once.
	pushback bool
}

// inputFailed is the reason of what a model said of an input. Unlike the other texts of INVALID_ARGUMENT, that text is
// the engine's, so fault.text does not show it as it is.
const inputFailed = "INPUT_FAILED"

// violation is the fault of a request that is wrong in a field: INVALID_ARGUMENT with a BadRequest that names the
// field.
func violation(field, description string) fault {
	return fault{code: codes.InvalidArgument, detail: &errdetails.BadRequest{
		FieldViolations: []*errdetails.BadRequest_FieldViolation{{
			Field: field, Description: predict.Clip(description),
		}},
	}}
}
