package loadgen

import (
	"bytes"
	"context"
	"encoding/json"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"

	"github.com/weftserve/weft/internal/config"
	"github.com/weftserve/weft/internal/weftest"
	weftv1 "github.com/weftserve/weft/proto/gen/weft/v1"
)

// streaming is a server that answers every other request of a stream, and refuses the others.
type streaming struct {
	weftv1.UnimplementedPredictionServiceServer

	t              *testing.T
	opened, unary  atomic.Int64
	answers, fails atomic.Int64
	mute           bool // it answers nothing on streams
}

func (s *streaming) GetModelMetadata(context.Context, *weftv1.GetModelMetadataRequest,
) (*weftv1.GetModelMetadataResponse, error) {
	return &weftv1.GetModelMetadataResponse{Signature: &weftv1.Signature{Inputs: []*weftv1.TensorSpec{{
		Name: "x", Dtype: weftv1.DataType_DATA_TYPE_FP32, Shape: []int64{-1, 4}, BatchDim: new(int32),
	}}}}, nil
}

func (s *streaming) Predict(context.Context, *weftv1.PredictRequest) (*weftv1.PredictResponse, error) {
	s.unary.Add(1)
	return &weftv1.PredictResponse{}, nil
}

func (s *streaming) PredictStream(stream weftv1.PredictionService_PredictStreamServer) error {
	s.opened.Add(1)
	used := map[string]bool{}
	for {
		m, err := stream.Recv()
		if err != nil {
			return nil //nolint:nilerr // the client has ended
		}
		if s.mute {
			continue
		}
		id, left := m.GetRequest().GetRequestId(), m.GetTimeout().AsDuration()
		if id == "" || used[id] || left <= 0 || left > time.Minute || len(m.GetRequest().GetInputs()["x"].GetRaw()) != 16 {
			s.t.Errorf("not a request of its own: %v", m)
		}
		used[id] = true
		answer := &weftv1.PredictStreamResponse{RequestId: id, Result: &weftv1.PredictStreamResponse_Response{
			Response: &weftv1.PredictResponse{Execution: &weftv1.ExecutionInfo{BatchRows: 7}},
		}}
		if len(used)%2 == 0 {
			answer.Result = &weftv1.PredictStreamResponse_Error{
				Error: &status.Status{Code: int32(codes.ResourceExhausted), Message: "full"},
			}
			s.fails.Add(1)
		} else {
			s.answers.Add(1)
		}
		if err := stream.Send(answer); err != nil {
			return nil //nolint:nilerr // the client has ended
		}
	}
}

// measureStreaming measures the server over streams, with four callers.
func measureStreaming(t *testing.T, s *streaming, deadline time.Duration) *StreamReport {
	t.Helper()
	g := grpc.NewServer()
	weftv1.RegisterPredictionServiceServer(g, s)
	var out bytes.Buffer
	o := optionsFor(weftest.Serve(t, g), func(o *Options) {
		o.OverStreams, o.JSON, o.Deadline = true, "-", config.Duration(deadline)
	})
	if err := Run(t.Context(), o, &out, &bytes.Buffer{}); err != nil {
		t.Fatal(err)
	}
	var r Report
	if err := json.Unmarshal(out.Bytes(), &r); err != nil || !r.OverStreams {
		t.Fatal(err, r)
	}
	return &r.Streams[0]
}

func TestOverStreams(t *testing.T) {
	s := &streaming{t: t}
	got := measureStreaming(t, s, time.Minute)
	// Those of the warm-up are not in the report. The first request asks whether the model takes it.
	if ok, refused := got.Codes["OK"], got.Codes["ResourceExhausted"]; ok == 0 || ok > s.answers.Load() ||
		refused == 0 || refused > s.fails.Load() || len(got.Codes) != 2 || s.unary.Load() != 1 || s.opened.Load() != 4 {
		t.Errorf("%v of %d answers and %d refusals; %d streams, %d other calls", got.Codes, s.answers.Load(), s.fails.Load(),
			s.opened.Load(), s.unary.Load())
	}
	if got.Server.BatchRows != 7 || got.FirstErrors["ResourceExhausted"] != "full" {
		t.Errorf("%+v, %v", got.Server, got.FirstErrors)
	}
}

// TestLateOverStreams: a request that is late ends its stream.
func TestLateOverStreams(t *testing.T) {
	s := &streaming{t: t, mute: true}
	got := measureStreaming(t, s, 20*time.Millisecond)
	if late := got.Codes["DeadlineExceeded"]; late == 0 || len(got.Codes) != 1 || s.opened.Load() < late {
		t.Errorf("%v over %d streams", got.Codes, s.opened.Load())
	}
}
