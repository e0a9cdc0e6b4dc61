package weftapi

import (
	"google.golang.org/grpc"

	weftv1 "github.com/weftserve/weft/proto/gen/weft/v1"
	"github.com/weftserve/weft/server/transport"
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
		func() transport.Request { return s.request(false) }), s)
}

// Checked reports whether an answer was kept to the limit of messages where it was counted.
func Checked(answer any) bool {
	_, prediction := answer.(*weftv1.PredictResponse)
	return prediction
}
