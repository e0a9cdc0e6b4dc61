package weftapi

import (
	"context"
	"time"

	weftv1 "github.com/weftserve/weft/proto/gen/weft/v1"
	"github.com/weftserve/weft/server/predict"
	"github.com/weftserve/weft/server/status"
)

// Predictions implements PredictionService.
type Predictions struct {
	weftv1.UnimplementedPredictionServiceServer
	*API
}

// Predict implements weftv1.PredictionServiceServer.
func (s Predictions) Predict(ctx context.Context, m *weftv1.PredictRequest) (*weftv1.PredictResponse, error) {
	c := newCodec(m, s.MaxMessageBytes)
	if deadline, ok := ctx.Deadline(); ok {
		c.Limit = predict.AnswerBy(time.Now(), deadline)
	}
	defer s.Pipeline.Leave(&c.Request)
	at, err := s.Pipeline.Predict(ctx, &c.Request)
	if err != nil {
		return nil, status.Fail(ctx, err, at)
	}
	return c.response, nil
}

// Refused counts a prediction whose message could not be read. The method is that of gRPC.
func (a *API) Refused(method string, err error) {
	stream := method == weftv1.PredictionService_PredictStream_FullMethodName
	if stream || method == weftv1.PredictionService_Predict_FullMethodName {
		a.Pipeline.Refuse("", stream, err)
	}
}

// Checked reports whether an answer was kept to the limit of messages where it was counted.
func Checked(answer any) bool {
	_, prediction := answer.(*weftv1.PredictResponse)
	return prediction
}
