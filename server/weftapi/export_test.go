package weftapi

import (
	weftv1 "github.com/weftserve/weft/proto/gen/weft/v1"
	"github.com/weftserve/weft/server/predict"
)

// NewRequest returns the request of a message.
func NewRequest(m *weftv1.PredictRequest) *predict.Request { return &newCodec(m, 1<<30).Request }
