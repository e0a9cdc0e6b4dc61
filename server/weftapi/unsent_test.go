package weftapi_test

import (
	"context"
	"io"
	"log/slog"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/proto"

	weftv1 "github.com/weftserve/weft/proto/gen/weft/v1"
	"github.com/weftserve/weft/runtime/catalog"
	"github.com/weftserve/weft/runtime/tensor"
	"github.com/weftserve/weft/server/predict"
	"github.com/weftserve/weft/server/servertest"
	"github.com/weftserve/weft/server/status"
	"github.com/weftserve/weft/server/transport"
	"github.com/weftserve/weft/server/weftapi"
)

// noModels knows no model.
type noModels struct{ predict.Models }

func (noModels) Snapshot() *catalog.Snapshot { return &catalog.Snapshot{} }

// oneRequest is a stream that brings one request and, while the answer is sent, looks at the server.
type oneRequest struct {
	weftv1.PredictionService_PredictStreamServer
	ctx      context.Context //nolint:containedctx // gRPC's interface asks for it
	requests chan *weftv1.PredictStreamRequest
	sending  func()
}

func (o *oneRequest) Context() context.Context { return o.ctx }

func (o *oneRequest) RecvMsg(into any) error {
	m, ok := <-o.requests
	if !ok {
		return io.EOF
	}
	data, err := proto.Marshal(m)
	if err != nil {
		return err
	}
	return into.(transport.Message).Take(mem.BufferSlice{mem.SliceBuffer(data)})
}

func (o *oneRequest) SendMsg(any) error {
	o.sending()
	return nil
}

// broken is a stream that cannot be read without a panic.
type broken struct{ oneRequest }

func (*broken) RecvMsg(any) error { panic("a bug") }

// TestPanicOfReader: it ends the stream, and not the server.
func TestPanicOfReader(t *testing.T) {
	s := weftapi.Predictions{API: &weftapi.API{Calls: &transport.Calls{
		Pipeline: predict.New(predict.Config{}, noModels{}), MaxInFlightPerStream: 1, Memory: &tensor.Recycler{},
		Logger: slog.New(slog.DiscardHandler),
	}}}
	err := s.PredictStream(&broken{oneRequest{ctx: t.Context()}})
	servertest.WantCode(t, err, codes.Internal, "the server failed while it handled this request")
}

func TestUnsentAnswersAreInTheServer(t *testing.T) {
	pipeline := predict.New(predict.Config{
		MaxConcurrentRequests: 1, Explain: status.Explain, Logger: slog.New(slog.DiscardHandler),
	}, noModels{})
	s := weftapi.Predictions{API: &weftapi.API{Calls: &transport.Calls{
		Pipeline: pipeline, MaxInFlightPerStream: 2, MaxMessageBytes: 1 << 20, Memory: &tensor.Recycler{},
	}}}
	stream := &oneRequest{ctx: t.Context(), requests: make(chan *weftv1.PredictStreamRequest, 1)}
	inside := -1
	stream.sending = func() { inside = pipeline.Gate().Inside() }
	stream.requests <- &weftv1.PredictStreamRequest{Request: &weftv1.PredictRequest{RequestId: "a"}}
	close(stream.requests)
	if err := s.PredictStream(stream); err != nil {
		t.Fatal(err)
	}
	if inside != 1 || pipeline.Gate().Inside() != 0 {
		t.Errorf("%d requests in the server while the answer is sent, %d afterwards; want 1 and 0", inside,
			pipeline.Gate().Inside())
	}
}
