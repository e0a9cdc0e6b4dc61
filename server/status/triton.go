package status

import (
	"slices"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

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
