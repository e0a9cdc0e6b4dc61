package predict_test

import (
	"context"
	"log/slog"
	"testing"

	"google.golang.org/grpc/codes" // every code must have an ending

	"github.com/weftserve/weft/runtime/catalog"
	"github.com/weftserve/weft/server/predict"
	"github.com/weftserve/weft/server/servertest"
	"github.com/weftserve/weft/server/status"
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

// TestCallerReachesTheModel: who a request is charged to goes with it, also when it is routed again.
func TestCallerReachesTheModel(t *testing.T) {
	var got []*catalog.Caller
	models := &servertest.House{Run: func(ctx context.Context, call *catalog.Call) error {
		if got = append(got, call.Caller); len(got) == 1 {
			return catalog.ErrNotReady
		}
		return servertest.RunPolicy(ctx, call)
	}}
	models.Current.Store(servertest.PolicySnapshot())
	p := predict.New(predict.Config{Explain: status.Explain, Logger: slog.New(slog.DiscardHandler)}, models)
	who := &catalog.Caller{Name: "tenant", Weight: 2}
	l := &jsonLine{Inputs: map[string]jsonTensor{"observation": {Shape: []int64{1, 4}, Values: []float32{1, 2, 3, 4}}}}
	req := &predict.Request{Model: "policy", Inputs: 1, Codec: l, Caller: who}
	if _, err := p.Predict(t.Context(), req); err != nil {
		t.Fatal(err)
	}
	p.Leave(req)
	if len(got) != 2 || got[0] != who || got[1] != who {
		t.Errorf("the model is asked for %v, want %v twice", got, who)
	}
}
