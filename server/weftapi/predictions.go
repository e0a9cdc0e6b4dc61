package weftapi

import (
	"google.golang.org/grpc"

	weftv1 "github.com/weftserve/weft/proto/gen/weft/v1"
	"github.com/weftserve/weft/server/calls"
)

// Predictions implements PredictionService.
type Predictions struct {
	weftv1.UnimplementedPredictionServiceServer // stands for Predict, which Register replaces
	*API
}

// Register registers the service. The handler of Predict is not the generated one, because its messages are not those
// of the generated code: see codec.
func (s Predictions) Register(with grpc.ServiceRegistrar) {
	with.RegisterService(s.Unary(&weftv1.PredictionService_ServiceDesc, "Predict", s,
		func() calls.Message { return s.request(false) }), s)
}

// Refused counts a prediction whose message could not be read. The method is that of gRPC.
func (a *API) Refused(method string, err error) {
	stream := method == weftv1.PredictionService_PredictStream_FullMethodName
	if stream || method == weftv1.PredictionService_Predict_FullMethodName {
		a.Pipeline.Refuse("", stream, err)
	}
}

// Keeps reports whether the messages of a method keep their caller themselves.
func Keeps(method string) bool { return method == weftv1.PredictionService_Predict_FullMethodName }

// Checked reports whether an answer was kept to the limit of messages where it was counted.
func Checked(answer any) bool {
	_, prediction := answer.(*weftv1.PredictResponse)
	return prediction
}
