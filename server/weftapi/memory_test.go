package weftapi_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	weftv1 "github.com/weftserve/weft/proto/gen/weft/v1"
	"github.com/weftserve/weft/runtime/catalog"
	"github.com/weftserve/weft/runtime/tensor"
	"github.com/weftserve/weft/server"
	"github.com/weftserve/weft/server/predict"
	"github.com/weftserve/weft/server/servertest"
	"github.com/weftserve/weft/server/wire"
)

// kept is a recorder.
type kept struct {
	mu        sync.Mutex
	requests  map[string]*weftv1.PredictRequest // guarded by mu; by id, as are the answers
	responses map[string]*weftv1.PredictResponse
}

func (k *kept) Keep(r *predict.Recorded) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.requests[r.Request.ID], k.responses[r.Request.ID] = wire.RequestMessage(r), wire.ResponseMessage(r)
}

// excess is the size of an input from which on the answer repeats it four times.
const excess = 400_000

// echoes serves version 7 of a model with the inputs a and b of any shape, which it answers with. Memory that was given
// back is overwritten.
func echoes(t *testing.T, limit int) (*servertest.House, *kept) {
	t.Helper()
	k := &kept{requests: map[string]*weftv1.PredictRequest{}, responses: map[string]*weftv1.PredictResponse{}}
	var h *servertest.House
	t.Cleanup(func() { h.Memory.WantAll() }) // when the server has stopped
	h = servertest.New(t, server.Config{Recorder: k, MaxMessageBytes: limit})
	v := servertest.PolicyVersion(7, catalog.Ready)
	any1 := tensor.Shape{tensor.Unknown}
	v.Batching.MaxRequestRows, v.Batching.Batched = 0, false
	v.Signature = &tensor.Signature{Inputs: []tensor.Spec{
		{Name: "a", DType: tensor.Uint8, Shape: any1, BatchDim: tensor.NoBatch},
		{Name: "b", DType: tensor.Float32, Shape: any1, BatchDim: tensor.NoBatch},
	}}
	v.Signature.Outputs = v.Signature.Inputs
	h.Current.Store(servertest.SnapshotOf(2, &catalog.Model{Name: "policy", Versions: []*catalog.Version{v}}))
	h.Run = func(_ context.Context, call *catalog.Call) error {
		if call.Inputs[0].Size() == 13 {
			return servertest.ErrBoom
		}
		for i := range call.Inputs {
			if call.Wanted != nil && !slices.Contains(call.Wanted, i) {
				continue
			}
			in := call.Inputs[i].Clone()
			if len(in.Data) >= excess {
				in.Shape, in.Data = tensor.Shape{4 * in.Shape[0]}, slices.Repeat(in.Data, 4)
			}
			data := *call.Memory.Get(len(in.Data))
			copy(data, in.Data)
			call.Results = append(call.Results, tensor.Tensor{DType: in.DType, Shape: slices.Clone(in.Shape), Data: data})
		}
		call.Outcome.Device, call.Outcome.Queue, call.Outcome.Executions = "cpu", time.Second, 300
		return nil
	}
	return h, k
}

// asking is a request whose inputs have so many bytes.
func asking(id string, a, b int) *weftv1.PredictRequest {
	bytes := func(n int) []byte {
		data := make([]byte, n)
		for i := range data {
			data[i] = byte(i + n)
		}
		return data
	}
	return &weftv1.PredictRequest{
		Model: &weftv1.ModelSpec{Name: "policy"}, RequestId: id,
		Inputs: map[string]*weftv1.Tensor{
			"a": {Dtype: weftv1.DataType_DATA_TYPE_UINT8, Shape: []int64{int64(a)}, Raw: bytes(a)},
			"b": {Dtype: weftv1.DataType_DATA_TYPE_FP32, Shape: []int64{int64(b / 4)}, Raw: bytes(b)},
		},
	}
}

// TestAnswersOfAllSizes: answers of messages that lie in one buffer, in many, and not at all, are what the generated
// code makes of the same result, and recordings outlive the memory of both.
func TestAnswersOfAllSizes(t *testing.T) {
	h, k := echoes(t, 0)
	stream := h.OpenStream(t.Context(), t)
	for _, sizes := range [][2]int{{0, 0}, {1, 0}, {0, 2000}, {700, 3000}, {9000, 8000}, {1, 20000}, {100000, 300000}} {
		for _, only := range [][]string{nil, {"b"}} {
			id := fmt.Sprint(sizes, only)
			asked := asking(id, sizes[0], sizes[1])
			asked.Outputs = only
			got, err := h.Predictions.Predict(t.Context(), asked)
			if err != nil {
				t.Fatal(err)
			}
			checkEcho(t, k, asked, got)
			asked.RequestId += " streamed"
			stream.Send(&weftv1.PredictStreamRequest{Request: asked, Timeout: durationpb.New(time.Hour)})
			streamed, err := stream.RPC.Recv()
			if err != nil || streamed.GetRequestId() != asked.GetRequestId() {
				t.Fatal(streamed.GetRequestId(), err)
			}
			checkEcho(t, k, asked, streamed.GetResponse())
		}
	}
	stream.End()
}

// checkEcho compares an answer with the request, and both with what was recorded.
func checkEcho(t *testing.T, k *kept, asked *weftv1.PredictRequest, got *weftv1.PredictResponse) {
	t.Helper()
	k.mu.Lock()
	defer k.mu.Unlock()
	if was := k.requests[asked.GetRequestId()]; !proto.Equal(was, asked) {
		t.Errorf("%s: another request was recorded", asked.GetRequestId())
	}
	if want := k.responses[asked.GetRequestId()]; !proto.Equal(got, want) {
		t.Errorf("%s: answered %.300v, want %.300v", asked.GetRequestId(), got, want)
	}
	for name, out := range got.GetOutputs() {
		if !proto.Equal(out, asked.GetInputs()[name]) {
			t.Errorf("%s: output %s is not input %s", asked.GetRequestId(), name, name)
		}
	}
	if n := max(len(asked.GetOutputs()), 2-len(asked.GetOutputs())); len(got.GetOutputs()) != n {
		t.Errorf("%s: %d outputs, want %d", asked.GetRequestId(), len(got.GetOutputs()), n)
	}
}

// TestMemoryIsGivenBack takes requests of many frames to every end that they have; the house checks the memory.
func TestMemoryIsGivenBack(t *testing.T) {
	h, _ := echoes(t, 2*excess)
	big := func(change func(*weftv1.PredictRequest)) *weftv1.PredictRequest {
		m := asking("big", 60000, 60000)
		change(m)
		return m
	}
	for name, test := range map[string]struct {
		code codes.Code
		ask  *weftv1.PredictRequest
	}{
		"answered":    {codes.OK, big(func(*weftv1.PredictRequest) {})},
		"unknown":     {codes.NotFound, big(func(m *weftv1.PredictRequest) { m.Model.Name = "other" })},
		"wrong shape": {codes.InvalidArgument, big(func(m *weftv1.PredictRequest) { m.Inputs["a"].Shape[0]++ })},
		"failing":     {codes.Internal, asking("failing", 13, 60000)},
		"too large":   {codes.ResourceExhausted, asking("too large", 5, excess)},
	} {
		_, err := h.Predictions.Predict(t.Context(), test.ask)
		servertest.WantCode(t, err, test.code, "")
		stream := h.OpenStream(t.Context(), t)
		stream.Send(&weftv1.PredictStreamRequest{Request: test.ask})
		answer, err := stream.RPC.Recv()
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if got := codes.Code(answer.GetError().GetCode()); got != test.code {
			t.Errorf("%s: the code on a stream is %v, want %v", name, got, test.code)
		}
		if err := stream.RPC.CloseSend(); err != nil {
			t.Error(err)
		}
		if _, err := stream.RPC.Recv(); !errors.Is(err, io.EOF) {
			t.Error(err)
		}
	}
}
