package predict_test

import (
	"testing"

	"google.golang.org/grpc/codes" // every code must have an ending

	"github.com/weftserve/weft/server/predict"
)

func TestEveryCodeHasAnEnding(t *testing.T) {
	ends := map[predict.Ending][]codes.Code{
		predict.Answered:  {codes.OK},
		predict.Expired:   {codes.DeadlineExceeded},
		predict.Cancelled: {codes.Canceled, codes.Aborted},
		predict.Failed:    {codes.Internal, codes.Unavailable, codes.Unknown, codes.DataLoss},
		predict.Refused: {
			codes.ResourceExhausted, codes.InvalidArgument, codes.NotFound, codes.PermissionDenied, codes.Unauthenticated,
			codes.FailedPrecondition, codes.OutOfRange, codes.Unimplemented, codes.AlreadyExists,
		},
	}
	seen := 0
	for want, all := range ends {
		for _, code := range all {
			seen++
			if got := predict.EndingOf(code.String()); got != want {
				t.Errorf("requests that end with %v are %v, want %v", code, got, want)
			}
		}
	}
	if all := int(codes.Unauthenticated) + 1; seen != all {
		t.Errorf("%d codes have an ending, want all %d", seen, all)
	}
}
