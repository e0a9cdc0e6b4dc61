package server_test

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/weftserve/weft/proto/gen/inference"
	"github.com/weftserve/weft/proto/gen/tensorflow"
	"github.com/weftserve/weft/proto/gen/tensorflow/serving"
	weftv1 "github.com/weftserve/weft/proto/gen/weft/v1"
	"github.com/weftserve/weft/runtime/catalog"
	"github.com/weftserve/weft/server"
	"github.com/weftserve/weft/server/servertest"
	"github.com/weftserve/weft/sharedsched"
)

// TestOverloadIsRefusedUnreadAlike, whatever the protocol.
func TestOverloadIsRefusedUnreadAlike(t *testing.T) {
	for _, triton := range []bool{false, true} {
		h := servertest.New(t, server.Config{TritonStatusCodes: triton})
		h.Run = func(context.Context, *catalog.Call) error {
			return &sharedsched.Refusal{Reason: sharedsched.RefusedQueueFull, MaxQueue: 7, RetryAfter: time.Millisecond}
		}
		infer := &inference.ModelInferRequest{
			ModelName: "policy", RawInputContents: [][]byte{make([]byte, 16)},
			Inputs: []*inference.ModelInferRequest_InferInputTensor{{
				Name: "observation", Datatype: "FP32", Shape: []int64{1, 4},
			}},
		}
		tf := &serving.PredictRequest{
			ModelSpec: &serving.ModelSpec{Name: "policy"},
			Inputs: map[string]*tensorflow.TensorProto{"observation": {
				Dtype: tensorflow.DataType_DT_FLOAT, FloatVal: []float32{1},
				TensorShape: &tensorflow.TensorShapeProto{Dim: []*tensorflow.TensorShapeProto_Dim{{Size: 1}, {Size: 4}}},
			}},
		}
		ofTriton := codes.ResourceExhausted
		if triton {
			ofTriton = codes.Unavailable
		}
		for name, c := range map[string]struct {
			call func() error
			want codes.Code
		}{
			"inference": {func() error {
				_, err := inference.NewGRPCInferenceServiceClient(h.Conn).ModelInfer(t.Context(), infer)
				return err
			}, ofTriton},
			"tensorflow": {func() error {
				_, err := serving.NewPredictionServiceClient(h.Conn).Predict(t.Context(), tf)
				return err
			}, codes.ResourceExhausted},
		} {
			throttled := 0
			for range 200 {
				err := c.call()
				servertest.WantCode(t, err, c.want, "the queue is full: 0 of 7 requests wait")
				if strings.Contains(err.Error(), "refused unread") {
					throttled++
				}
			}
			if throttled < 100 {
				t.Errorf("%s: of 200 calls %d were refused unread", name, throttled)
			}
		}
	}
}

// TestOverloadIsRefusedUnread on connections that brought it before; every call is counted.
func TestOverloadIsRefusedUnread(t *testing.T) {
	h := servertest.New(t, server.Config{})
	var ran, capacity atomic.Int64
	h.Run = func(ctx context.Context, call *catalog.Call) error {
		ran.Add(1)
		if capacity.Add(-1) >= 0 {
			return servertest.RunPolicy(ctx, call)
		}
		return &sharedsched.Refusal{Reason: sharedsched.RefusedQueueFull, MaxQueue: 7, RetryAfter: time.Millisecond}
	}
	send := func(to weftv1.PredictionServiceClient) (throttled bool) {
		_, err := to.Predict(t.Context(), servertest.Observation(""))
		if err == nil {
			return false
		}
		servertest.WantCode(t, err, codes.ResourceExhausted, "the queue is full: 0 of 7 requests wait")
		return strings.Contains(err.Error(), "refused unread") && len(status.Convert(err).Details()) == 2
	}
	throttled := 0
	for range 200 {
		if send(h.Predictions) {
			throttled++
		}
	}
	if read := int(ran.Load()); throttled < 100 || throttled+read != 200 {
		t.Errorf("of 200 calls %d were refused unread and %d were read", throttled, read)
	}
	if n := h.Unread(); n != throttled {
		t.Errorf("%d requests were counted as refused unread, want %d", n, throttled)
	}
	if send(weftv1.NewPredictionServiceClient(servertest.Dial(t, h.GRPC))) {
		t.Error("a call of a connection was refused of which nobody knows what it brings")
	}

	capacity.Store(1 << 30)
	recovered := time.Now().Add(10 * time.Second) // of some half a second
	for in := 0; in < 100; in++ {
		if send(h.Predictions) {
			in = 0
		}
		if time.Now().After(recovered) {
			t.Fatal("calls are refused although there is capacity")
		}
	}
	if n := len(h.Events()); n < 301 {
		t.Errorf("%d calls were counted", n)
	}
}
