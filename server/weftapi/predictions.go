package weftapi

import (
	weftv1 "github.com/weftserve/weft/proto/gen/weft/v1"
	"github.com/weftserve/weft/server/transport"
)

// Predictions implements PredictionService.
type Predictions struct {
	weftv1.UnimplementedPredictionServiceServer // stands for Predict, see NewRequest
	*API
}

// NewRequest implements transport.Predicting: the messages of Predict are not those of the generated code, see codec.
func (s Predictions) NewRequest(method string) transport.Request {
	if method != "Predict" {
		return nil
	}
	return s.request(false)
}
