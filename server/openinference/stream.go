package openinference

import (
	"context"
	"slices"
	"time"

	"google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc/metadata"

	"github.com/weftserve/weft/proto/gen/inference"
	"github.com/weftserve/weft/server/predict"
	"github.com/weftserve/weft/server/transport"
)

// ModelStreamInfer implements inference.GRPCInferenceServiceServer. It returns once everything that it accepted was
// answered.
func (s *Service) ModelStreamInfer(rpc inference.GRPCInferenceService_ModelStreamInferServer) error {
	asked, _ := metadata.FromIncomingContext(rpc.Context())
	return s.Stream(rpc, stream{s, slices.Equal(asked.Get(statusKey), []string{"true"})})
}

// statusKey is the metadata by which a caller wants the first error to end the stream with its status, instead of a
// text in an answer.
const statusKey = "triton_grpc_error"

// stream is one ModelStreamInfer call. It implements transport.Streamed. Unlike a stream of weft.v1 it knows nothing of
// its requests: they need no ids and supersede none.
type stream struct {
	service  *Service
	statuses bool // the first error ends the stream
}

// New implements transport.Streamed.
func (st stream) New() transport.Request { return newRequest(st.service, true) }

// Enter implements transport.Streamed. The timeout of a request counts from its arrival, which fill did not know.
func (stream) Enter(m transport.Request, arrival time.Time, _ context.CancelCauseFunc) error {
	r := m.(*request)
	if t := r.asked.timeout; t > 0 {
		r.Limit = predict.AnswerBy(arrival, arrival.Add(t))
	}
	return nil
}

// Failed implements transport.Streamed. The answer names the request, by which the caller finds it: answers come in any
// order.
func (st stream) Failed(m transport.Request, why *status.Status) any {
	if st.statuses {
		return nil
	}
	r := m.(*request)
	return &inference.ModelStreamInferResponse{
		ErrorMessage: why.GetMessage(),
		InferResponse: &inference.ModelInferResponse{
			ModelName: predict.Clip(r.Model), ModelVersion: predict.Clip(r.in.GetModelVersion()), Id: predict.Clip(r.ID),
		},
	}
}
