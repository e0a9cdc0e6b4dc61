package openinference

import (
	"context"
	"slices"
	"time"

	"google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc/metadata"

	"github.com/weftserve/weft/proto/gen/inference"
	"github.com/weftserve/weft/server/calls"
	"github.com/weftserve/weft/server/predict"
)

// ModelStreamInfer implements inference.GRPCInferenceServiceServer. It returns once everything that it accepted was
// answered.
func (s *Service) ModelStreamInfer(rpc inference.GRPCInferenceService_ModelStreamInferServer) error {
	asked, _ := metadata.FromIncomingContext(rpc.Context())
	return s.Stream(rpc, stream{s, slices.Equal(asked.Get(statusKey), []string{"true"})})
}

// statusKey is the metadata by which a caller wants the first error to end the stream with its status, instead of a
// text.
const statusKey = "triton_grpc_error"

// stream is one ModelStreamInfer call. It implements calls.Streamed.
type stream struct {
	service  *Service
	statuses bool
}

// New implements calls.Streamed.
func (st stream) New() calls.Message { return newRequest(st.service, true) }

// Enter implements calls.Streamed.
func (stream) Enter(m calls.Message, arrival time.Time, _ context.CancelCauseFunc) error {
	r := m.(*request)
	if t := r.asked.timeout; t > 0 {
		r.Limit = predict.AnswerBy(arrival, arrival.Add(t))
	}
	return nil
}

// Leave implements calls.Streamed.
func (stream) Leave(calls.Message) {}

// Failed implements calls.Streamed.
func (st stream) Failed(m calls.Message, why *status.Status) any {
	if st.statuses {
		return nil
	}
	r := m.(*request)
	return &inference.ModelStreamInferResponse{
		ErrorMessage: why.GetMessage(),
		InferResponse: &inference.ModelInferResponse{
			ModelName: predict.Clip(r.Model), ModelVersion: predict.Clip(r.in.version), Id: predict.Clip(r.ID),
		},
	}
}
