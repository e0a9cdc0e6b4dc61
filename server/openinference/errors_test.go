package openinference_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"

	"github.com/weftserve/weft/proto/gen/inference"
	"github.com/weftserve/weft/runtime/catalog"
	"github.com/weftserve/weft/runtime/tensor"
	"github.com/weftserve/weft/server"
	"github.com/weftserve/weft/server/servertest"
	"github.com/weftserve/weft/sharedsched"
)

// pair is a model of two inputs with rows, one of them of texts.
func pair() *catalog.Snapshot {
	v := servertest.PolicyVersion(2, catalog.Ready)
	v.Signature = &tensor.Signature{
		Inputs: []tensor.Spec{
			{Name: "observation", DType: tensor.Float32, Shape: tensor.Shape{tensor.Unknown, 4}, BatchDim: 0},
			{Name: "task", DType: tensor.String, Shape: tensor.Shape{tensor.Unknown}, BatchDim: 0},
		},
		Outputs: v.Signature.Outputs,
	}
	return servertest.SnapshotOf(2, &catalog.Model{
		Name: "policy", Versions: []*catalog.Version{
			v, servertest.PolicyVersion(3, catalog.Loading), servertest.PolicyVersion(4, catalog.Failed),
		},
	})
}

// ofPair is a request of two rows.
func ofPair() *inference.ModelInferRequest {
	q := observation("", 2)
	q.Inputs = append(q.Inputs, &inference.ModelInferRequest_InferInputTensor{
		Name: "task", Datatype: "BYTES", Shape: []int64{2},
	})
	q.RawInputContents = append(q.RawInputContents, []byte("\x01\x00\x00\x00a\x00\x00\x00\x00"))
	return q
}

// overHTTP sends a request with its tensors as bytes.
func overHTTP(t *testing.T, h *servertest.House, q *inference.ModelInferRequest) string {
	t.Helper()
	var body struct {
		Inputs  []map[string]any `json:"inputs"`
		Outputs []map[string]any `json:"outputs,omitempty"`
	}
	for i, in := range q.GetInputs() {
		body.Inputs = append(body.Inputs, map[string]any{
			"name": in.GetName(), "datatype": in.GetDatatype(), "shape": in.GetShape(),
			"parameters": map[string]any{"binary_data_size": len(q.GetRawInputContents()[i])},
		})
	}
	for _, o := range q.GetOutputs() {
		body.Outputs = append(body.Outputs, map[string]any{"name": o.GetName()})
	}
	head, err := json.Marshal(body)
	if err != nil {
		t.Fatal(err)
	}
	path := "/v2/models/" + q.GetModelName()
	if q.GetModelVersion() != "" {
		path += "/versions/" + q.GetModelVersion()
	}
	tail := slices.Concat(q.GetRawInputContents()...)
	got, _ := web(t, h, "POST", path+"/infer", string(head)+string(tail),
		fmt.Sprint("Inference-Header-Content-Length: ", len(head)))
	return got
}

// TestErrorTable: each kind of error has its code, over gRPC and over HTTP, and names the model or the tensor.
func TestErrorTable(t *testing.T) {
	boom := &catalog.ModelError{Model: "policy", Version: 2, Err: errors.New("boom")}
	for name, c := range map[string]struct {
		change func(*inference.ModelInferRequest)
		run    error // of the execution; nil: it is none
		drains bool
		code   codes.Code
		web    int
		says   string
	}{
		"unknown model": {
			change: func(q *inference.ModelInferRequest) { q.ModelName = "x" },
			code:   codes.NotFound, web: http.StatusNotFound, says: `no model is named "x"`,
		},
		"unknown version": {
			change: func(q *inference.ModelInferRequest) { q.ModelVersion = "9" },
			code:   codes.NotFound, web: http.StatusNotFound, says: `model "policy" has no version 9`,
		},
		"a version that loads": {
			change: func(q *inference.ModelInferRequest) { q.ModelVersion = "3" },
			code:   codes.Unavailable, web: http.StatusServiceUnavailable, says: `model "policy" version 3 is loading; try again`,
		},
		"a version that failed": {
			change: func(q *inference.ModelInferRequest) { q.ModelVersion = "4" },
			code:   codes.FailedPrecondition, web: http.StatusBadRequest, says: `model "policy" version 4 failed to load: `,
		},
		"a version that is no number": {
			change: func(q *inference.ModelInferRequest) { q.ModelVersion = "-1" },
			code:   codes.InvalidArgument, web: http.StatusBadRequest, says: `model_version: expected the number of a version`,
		},
		"another shape": {
			change: func(q *inference.ModelInferRequest) { q.Inputs[0].Shape = []int64{2, 5} },
			code:   codes.InvalidArgument, web: http.StatusBadRequest,
			says: `inputs["observation"].shape: expected [?,4], got [2,5]`,
		},
		"too many rows": {
			change: func(q *inference.ModelInferRequest) {
				big := observation("", 101)
				q.Inputs[0], q.RawInputContents[0] = big.GetInputs()[0], big.GetRawInputContents()[0]
				q.Inputs[1].Shape, q.RawInputContents[1] = []int64{101}, make([]byte, 4*101)
			},
			code: codes.InvalidArgument, web: http.StatusBadRequest,
			says: `inputs["observation"].shape: expected at most 100 rows in one request`,
		},
		"inputs of different rows": {
			change: func(q *inference.ModelInferRequest) {
				q.Inputs[1].Shape, q.RawInputContents[1] = []int64{3}, make([]byte, 12)
			},
			code: codes.InvalidArgument, web: http.StatusBadRequest, says: `inputs["task"].shape: expected 2 rows`,
		},
		"another type": {
			change: func(q *inference.ModelInferRequest) { q.Inputs[0].Datatype = "INT32" },
			code:   codes.InvalidArgument, web: http.StatusBadRequest,
			says: `inputs["observation"].datatype: expected FP32, got "INT32"`,
		},
		"too few bytes": {
			change: func(q *inference.ModelInferRequest) { q.RawInputContents[0] = q.GetRawInputContents()[0][:31] },
			code:   codes.InvalidArgument, web: http.StatusBadRequest,
			says: `inputs["observation"].raw_input_contents: expected 32 bytes (shape [2,4] of fp32), got 31 bytes`,
		},
		"too many bytes": {
			change: func(q *inference.ModelInferRequest) { q.RawInputContents[0] = append(q.RawInputContents[0], 0) },
			code:   codes.InvalidArgument, web: http.StatusBadRequest, says: "(shape [2,4] of fp32), got 33 bytes",
		},
		"texts that are cut short": {
			change: func(q *inference.ModelInferRequest) { q.RawInputContents[1] = q.GetRawInputContents()[1][:8] },
			code:   codes.InvalidArgument, web: http.StatusBadRequest,
			says: `inputs["task"].raw_input_contents: expected texts that each have their length in four bytes before them`,
		},
		"texts that are too few": {
			change: func(q *inference.ModelInferRequest) { q.RawInputContents[1] = q.GetRawInputContents()[1][:5] },
			code:   codes.InvalidArgument, web: http.StatusBadRequest,
			says: `inputs["task"].raw_input_contents: expected 2 texts (shape [2]), got 1 texts`,
		},
		"a missing input": {
			change: func(q *inference.ModelInferRequest) {
				q.Inputs, q.RawInputContents = q.GetInputs()[:1], q.GetRawInputContents()[:1]
			},
			code: codes.InvalidArgument, web: http.StatusBadRequest, says: `inputs["task"]: expected a tensor of string [?]`,
		},
		"a further input": {
			change: func(q *inference.ModelInferRequest) {
				more := proto.CloneOf(q.GetInputs()[1])
				more.Name = "more"
				q.Inputs, q.RawInputContents = append(q.Inputs, more), append(q.RawInputContents, q.GetRawInputContents()[1])
			},
			code: codes.InvalidArgument, web: http.StatusBadRequest,
			says: `inputs: expected only "observation", "task", got also "more"`,
		},
		"an input twice": {
			change: func(q *inference.ModelInferRequest) {
				q.Inputs = append(q.Inputs, q.GetInputs()[1])
				q.RawInputContents = append(q.RawInputContents, q.GetRawInputContents()[1])
			},
			code: codes.InvalidArgument, web: http.StatusBadRequest, says: `inputs: expected each input once`,
		},
		"an unknown output": {
			change: func(q *inference.ModelInferRequest) {
				q.Outputs = []*inference.ModelInferRequest_InferRequestedOutputTensor{requested("x", nil)}
			},
			code: codes.InvalidArgument, web: http.StatusBadRequest,
			says: `outputs[0]: expected one of "action", "value", got "x"`,
		},
		"an output twice": {
			change: func(q *inference.ModelInferRequest) {
				q.Outputs = []*inference.ModelInferRequest_InferRequestedOutputTensor{
					requested("value", nil), requested("value", nil),
				}
			},
			code: codes.InvalidArgument, web: http.StatusBadRequest, says: `outputs[1]: expected each output once, got "value"`,
		},
		"a full queue": {
			run:  &sharedsched.Refusal{Reason: sharedsched.RefusedQueueFull, Queued: 7, MaxQueue: 7, RetryAfter: 1},
			code: codes.ResourceExhausted, web: http.StatusTooManyRequests, says: `model "policy" version 2`,
		},
		"time that is over": {
			run: sharedsched.ErrExpired, code: codes.DeadlineExceeded, web: http.StatusGatewayTimeout,
			says: "the deadline passed",
		},
		"a call that was cancelled": {
			run: context.Canceled, code: codes.Canceled, web: 499, says: "canceled",
		},
		"a server that drains": {drains: true, code: codes.Unavailable, web: http.StatusServiceUnavailable, says: "draining"},
		"an execution that takes too much memory": {
			run:  &catalog.ModelError{Model: "policy", Version: 2, Err: errors.New("boom"), Exceeded: 1},
			code: codes.ResourceExhausted, web: http.StatusTooManyRequests, says: "boom",
		},
		"an execution that fails": {
			run: boom, code: codes.Internal, web: http.StatusInternalServerError, says: `boom`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			h := servertest.New(t, server.Config{})
			h.Current.Store(pair())
			h.Run = func(context.Context, *catalog.Call) error {
				if c.run == nil {
					t.Error("it was executed")
				}
				return c.run
			}
			if c.drains {
				if err := h.Drain(t.Context()); err != nil {
					t.Fatal(err)
				}
			}
			q := ofPair()
			if c.change != nil {
				c.change(q)
			}
			_, err := clientOf(h).ModelInfer(t.Context(), q)
			servertest.WantCode(t, err, c.code, c.says)
			got := overHTTP(t, h, q)
			code, text, _ := strings.Cut(got, " ")
			var body struct{ Error string }
			says := strings.Replace(c.says, "raw_input_contents", `parameters["binary_data_size"]`, 1)
			if err := json.Unmarshal([]byte(text), &body); err != nil || code != strconv.Itoa(c.web) ||
				!strings.Contains(body.Error, says) {
				t.Errorf("over HTTP: %s, %v, want %d with %q", got, err, c.web, says)
			}
		})
	}
	h := servertest.New(t, server.Config{})
	h.Current.Store(pair())
	if got := overHTTP(t, h, ofPair()); !strings.HasPrefix(got, "200 ") { // else all of this shows nothing
		t.Error(got)
	}
}
