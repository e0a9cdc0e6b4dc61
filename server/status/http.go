package status

import (
	"math"
	"net/http"
	"strconv"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// httpCodes are what codes of gRPC are over HTTP (google/rpc/code.proto in github.com/googleapis/googleapis); others
// are 500.
var httpCodes = map[codes.Code]int{
	codes.InvalidArgument: http.StatusBadRequest, codes.FailedPrecondition: http.StatusBadRequest,
	codes.Unauthenticated: http.StatusUnauthorized, codes.PermissionDenied: http.StatusForbidden,
	codes.NotFound: http.StatusNotFound, codes.Aborted: http.StatusConflict,
	codes.AlreadyExists:     http.StatusConflict,
	codes.ResourceExhausted: http.StatusTooManyRequests, codes.Canceled: 499, // "client closed request", by nginx
	codes.Unimplemented: http.StatusNotImplemented, codes.Unavailable: http.StatusServiceUnavailable,
	codes.DeadlineExceeded: http.StatusGatewayTimeout,
}

// The reasons of RESOURCE_EXHAUSTED with which a message may be refused for its size. Without a time to wait it is too
// large at any time.
const messageTooLarge, quotaExceeded = "MESSAGE_TOO_LARGE", "QUOTA_EXCEEDED"

// HTTP returns the error of a call as HTTP has it: the code, the text, and the header Retry-After in whole seconds, ""
// for none. What is too large to be taken at any time (413) is told from what may be sent again later (429).
func HTTP(err error) (code int, text, retryAfter string) {
	st := status.Convert(err)
	code, known := httpCodes[st.Code()]
	if !known {
		code = http.StatusInternalServerError
	}
	for _, d := range st.Details() {
		if d, is := d.(*errdetails.RetryInfo); is {
			seconds := math.Ceil(float64(d.GetRetryDelay().AsDuration()) / float64(time.Second))
			retryAfter = strconv.Itoa(int(seconds))
		}
	}
	if reason := reasonOf(st); retryAfter == "" && (reason == messageTooLarge || reason == quotaExceeded) {
		code = http.StatusRequestEntityTooLarge
	}
	return code, st.Message(), retryAfter
}
