package server_test

import (
	"context"
	"testing"
	"time"

	service "github.com/cncf/xds/go/xds/service/orca/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/weftserve/weft/proto/gen/inference"
	"github.com/weftserve/weft/proto/gen/tensorflow"
	"github.com/weftserve/weft/proto/gen/tensorflow/serving"
	weftv1 "github.com/weftserve/weft/proto/gen/weft/v1"
	"github.com/weftserve/weft/runtime/catalog"
	"github.com/weftserve/weft/server"
	"github.com/weftserve/weft/server/load"
	"github.com/weftserve/weft/server/predict"
	"github.com/weftserve/weft/server/servertest"
	"github.com/weftserve/weft/sharedsched"
)

// predictions are calls of the methods that report the load. Each sends a request for a model.
var predictions = map[string]func(model string) (request, answer proto.Message){
	"/weft.v1.PredictionService/Predict": func(model string) (proto.Message, proto.Message) {
		q := servertest.Observation("")
		q.Model.Name = model
		return q, &weftv1.PredictResponse{}
	},
	"/inference.GRPCInferenceService/ModelInfer": func(model string) (proto.Message, proto.Message) {
		return &inference.ModelInferRequest{
			ModelName: model, RawInputContents: [][]byte{make([]byte, 16)},
			Inputs: []*inference.ModelInferRequest_InferInputTensor{{
				Name: "observation", Datatype: "FP32", Shape: []int64{1, 4},
			}},
		}, &inference.ModelInferResponse{}
	},
	"/tensorflow.serving.PredictionService/Predict": func(model string) (proto.Message, proto.Message) {
		return &serving.PredictRequest{
			ModelSpec: &serving.ModelSpec{Name: model},
			Inputs: map[string]*tensorflow.TensorProto{"observation": {
				Dtype: tensorflow.DataType_DT_FLOAT, FloatVal: []float32{1},
				TensorShape: &tensorflow.TensorShapeProto{Dim: []*tensorflow.TensorShapeProto_Dim{{Size: 1}, {Size: 4}}},
			}},
		}, &serving.PredictResponse{}
	},
}

// TestEveryAnswerReportsTheLoad, and every refusal, however early or late the call ends. Those for lack of capacity
// count as such, and no others.
func TestEveryAnswerReportsTheLoad(t *testing.T) {
	fails := func(err error) func(context.Context, *catalog.Call) error {
		return func(context.Context, *catalog.Call) error { return err }
	}
	queueFull := &sharedsched.Refusal{Reason: sharedsched.RefusedQueueFull, MaxQueue: 7}
	late := &sharedsched.Refusal{Reason: sharedsched.RefusedDeadline, Predicted: time.Second, Limit: time.Millisecond}
	for name, c := range map[string]struct {
		config server.Config
		model  string // "": policy
		raw    []byte // sent as the message; nil: a request
		run    func(context.Context, *catalog.Call) error
		before func(*servertest.House)
		want   codes.Code
		lacked bool
	}{
		"answered":      {want: codes.OK},
		"no such model": {model: "nonesuch", want: codes.NotFound},
		"broken":        {raw: []byte{0xff}, want: codes.InvalidArgument},
		"too large":     {config: server.Config{MaxMessageBytes: 16}, want: codes.ResourceExhausted},
		"no identity": {
			config: server.Config{Access: &servertest.NewControl(t, policyOf(people())).Control}, want: codes.Unauthenticated,
		},
		"server full": {
			config: server.Config{MaxConcurrentRequests: 1}, want: codes.ResourceExhausted, lacked: true,
			before: func(h *servertest.House) {
				gated := servertest.NewGated()
				h.Run = gated.Run
				go func() { _, _ = h.Predictions.Predict(context.Background(), servertest.Observation("")) }()
				<-gated.Entered
			},
		},
		"queue full":          {run: fails(queueFull), want: codes.ResourceExhausted, lacked: true},
		"late by its arrival": {run: fails(late), want: codes.ResourceExhausted, lacked: true},
		"expired in a queue":  {run: fails(sharedsched.ErrExpired), want: codes.DeadlineExceeded, lacked: true},
		"device lost":         {run: fails(catalog.ErrDeviceLost), want: codes.Unavailable},
		"model failed":        {run: fails(&catalog.ModelError{Err: servertest.ErrBoom}), want: codes.Internal},
		"panic": {
			run: func(context.Context, *catalog.Call) error { panic("a test's") }, want: codes.Internal,
		},
		"draining": {
			before: func(h *servertest.House) { _ = h.Drain(context.Background()) }, want: codes.Unavailable,
		},
	} {
		t.Run(name, func(t *testing.T) {
			for method, of := range predictions {
				h := servertest.New(t, c.config)
				if c.run != nil {
					h.Run = c.run
				}
				if c.before != nil {
					c.before(h)
				}
				model := c.model
				if model == "" {
					model = "policy"
				}
				request, answer := of(model)
				var options []grpc.CallOption
				var message, reply any = request, answer
				if c.raw != nil {
					options, message, reply = []grpc.CallOption{grpc.ForceCodec(rawCodec{})}, c.raw, new([]byte)
				}
				var trailer metadata.MD
				err := h.Conn.Invoke(t.Context(), method, message, reply, append(options, grpc.Trailer(&trailer))...)
				if status.Code(err) != c.want {
					t.Errorf("%s: %v, want %v", method, err, c.want)
				}
				if n := len(trailer.Get(load.TrailerKey)); n != 1 {
					t.Errorf("%s: %d reports in %v", method, n, trailer)
				}
				for _, e := range h.Events() { // a call without an identity has none
					if answered := e.Ending == predict.Answered; answered != (err == nil) || e.Lacked != c.lacked {
						t.Errorf("%s: counted as %+v, want lack of capacity: %v", method, e, c.lacked)
					}
				}
			}
		})
	}
}

// TestReportsComeOnce: an answer reports the load unless an earlier one on its connection has reported the same.
func TestReportsComeOnce(t *testing.T) {
	h := servertest.New(t, server.Config{})
	for _, conn := range []*grpc.ClientConn{h.Conn, servertest.Dial(t, h.GRPC)} {
		for _, want := range []int{1, 0, 0} {
			var trailer metadata.MD
			_, err := weftv1.NewPredictionServiceClient(conn).
				Predict(t.Context(), servertest.Observation(""), grpc.Trailer(&trailer))
			if n := len(trailer.Get(load.TrailerKey)); err != nil || n != want {
				t.Errorf("%d reports, want %d; %v", n, want, err)
			}
		}
	}
}

// TestUnreadLackCapacity: calls that are refused unread bring no report, but are counted.
func TestUnreadLackCapacity(t *testing.T) {
	h := servertest.New(t, server.Config{})
	h.Run = func(context.Context, *catalog.Call) error {
		return &sharedsched.Refusal{Reason: sharedsched.RefusedQueueFull, MaxQueue: 7}
	}
	const calls = 200
	for range calls {
		_, err := h.Predictions.Predict(t.Context(), servertest.Observation(""))
		servertest.WantCode(t, err, codes.ResourceExhausted, "")
	}
	lacked := 0
	for _, e := range h.Events() {
		if e.Lacked {
			lacked++
		}
	}
	if lacked != calls || h.Unread() == 0 {
		t.Errorf("%d calls lacked capacity, %d of them unread; want %d, some unread", lacked, h.Unread(), calls)
	}
}

// TestLoadIsStreamed to anybody, until the server drains.
func TestLoadIsStreamed(t *testing.T) {
	access := &servertest.NewControl(t, policyOf(people())).Control
	h := servertest.New(t, server.Config{Access: access})
	stream, err := service.NewOpenRcaServiceClient(h.Conn).StreamCoreMetrics(t.Context(),
		&service.OrcaLoadReportRequest{ReportInterval: durationpb.New(time.Millisecond)})
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if _, err := stream.Recv(); err != nil {
			t.Fatal(err)
		}
	}
	if err := h.Drain(t.Context()); err != nil {
		t.Fatal(err)
	}
	for err == nil {
		_, err = stream.Recv()
	}
	servertest.WantCode(t, err, codes.Unavailable, "")
	done := make(chan struct{})
	go func() {
		h.GRPC.GracefulStop()
		close(done)
	}()
	select {
	case <-done:
	case <-time.After(time.Minute):
		t.Error("a graceful stop waits for the stream")
	}
}
