package server_test

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/weftserve/weft/proto/gen/inference"
	"github.com/weftserve/weft/proto/gen/tensorflow"
	"github.com/weftserve/weft/proto/gen/tensorflow/serving"
	weftv1 "github.com/weftserve/weft/proto/gen/weft/v1"
	"github.com/weftserve/weft/runtime/catalog"
	"github.com/weftserve/weft/runtime/tensor"
	"github.com/weftserve/weft/server"
	"github.com/weftserve/weft/server/servertest"
	"github.com/weftserve/weft/server/wire"
	"github.com/weftserve/weft/sharedsched"
)

// question is a request as every protocol can have it. Its elements are raw.
type question struct {
	model, label, episode string
	version               int64 // 0: none
	inputs                []tensor.Tensor
	names                 []string // of the inputs
	outputs               []string
	timeout               time.Duration
	sheddable             bool
}

// ofPair is a question of two rows to pair.
func ofPair() *question {
	return &question{model: "policy", names: []string{"observation", "task"}, inputs: []tensor.Tensor{
		{DType: tensor.Float32, Shape: tensor.Shape{2, 4}, Data: floats(1, 2, 3, 4, 5, 6, 7, 8)},
		{DType: tensor.Int64, Shape: tensor.Shape{2}, Data: make([]byte, 16)},
	}}
}

// pair is a model of two inputs with rows. Version 2 is ready and has a label, 3 loads, and 4 has failed.
func pair() *catalog.Snapshot {
	v := servertest.PolicyVersion(2, catalog.Ready)
	v.Signature = &tensor.Signature{
		Inputs: []tensor.Spec{
			servertest.PolicySignature.Inputs[0],
			{Name: "task", DType: tensor.Int64, Shape: tensor.Shape{tensor.Unknown}, BatchDim: 0},
		},
		Outputs: v.Signature.Outputs,
	}
	return servertest.SnapshotOf(2, &catalog.Model{
		Name: "policy", Labels: map[string]int64{"stable": 2}, Versions: []*catalog.Version{
			v, servertest.PolicyVersion(3, catalog.Loading), servertest.PolicyVersion(4, catalog.Failed),
		},
	})
}

func floats(values ...float32) []byte {
	var raw []byte
	for _, v := range values {
		raw = binary.LittleEndian.AppendUint32(raw, math.Float32bits(v))
	}
	return raw
}

// answer is the raw outputs, the version that gave them, and the table that led to it.
type answer struct {
	version int64
	outputs map[string][]byte
	table   string
}

// httpError is an answer of HTTP that is an error.
type httpError struct {
	code int
	text string
}

func (e *httpError) Error() string { return fmt.Sprint(e.code, " ", e.text) }

// protocol is a protocol of the server.
type protocol struct {
	ask        func(context.Context, *servertest.House, *question) (answer, error)
	raw        string // what it calls raw elements
	noPriority bool
	never      []string // what cannot be asked
}

// ofMaps is what a map of inputs cannot have.
var ofMaps = []string{"an input twice"}

var protocols = map[string]protocol{
	"weft.v1":                         {ask: askWeft, raw: "raw", never: ofMaps},
	"weft.v1 stream":                  {ask: askWeftStream, raw: "raw", never: ofMaps},
	"Open Inference Protocol":         {ask: askInference, raw: "raw_input_contents"},
	"Open Inference Protocol stream":  {ask: askInferenceStream, raw: "raw_input_contents"},
	"Open Inference Protocol in JSON": {ask: askWeb, raw: `parameters["binary_data_size"]`, never: []string{"no model"}},
	"TensorFlow Serving":              {ask: askTensorFlow, raw: "tensor_content", noPriority: true, never: ofMaps},
}

func weftOf(q *question) *weftv1.PredictRequest {
	m := &weftv1.PredictRequest{
		Model: &weftv1.ModelSpec{Name: q.model}, RequestId: "a", Outputs: q.outputs, Inputs: map[string]*weftv1.Tensor{},
		EpisodeId:      q.episode,
		OutputEncoding: weftv1.OutputEncoding_OUTPUT_ENCODING_RAW,
	}
	for i, name := range q.names {
		m.Inputs[name] = wire.Encode(q.inputs[i], true)
	}
	switch {
	case q.version != 0:
		m.Model.VersionChoice = &weftv1.ModelSpec_Version{Version: q.version}
	case q.label != "":
		m.Model.VersionChoice = &weftv1.ModelSpec_Label{Label: q.label}
	}
	if q.sheddable {
		m.Priority = weftv1.Priority_PRIORITY_SHEDDABLE_PLUS
	}
	return m
}

func ofWeft(m *weftv1.PredictResponse) answer {
	a := answer{m.GetModel().GetVersion(), map[string][]byte{}, m.GetExecution().GetTable()}
	for name, t := range m.GetOutputs() {
		a.outputs[name] = t.GetRaw()
	}
	return a
}

func within(ctx context.Context, q *question) (context.Context, context.CancelFunc) {
	if q.timeout == 0 {
		return ctx, func() {}
	}
	return context.WithTimeout(ctx, q.timeout)
}

func askWeft(ctx context.Context, h *servertest.House, q *question) (answer, error) {
	ctx, cancel := within(ctx, q)
	defer cancel()
	m, err := h.Predictions.Predict(ctx, weftOf(q))
	return ofWeft(m), err
}

func askWeftStream(ctx context.Context, h *servertest.House, q *question) (answer, error) {
	stream, err := h.Predictions.PredictStream(ctx)
	if err != nil {
		return answer{}, err
	}
	m := &weftv1.PredictStreamRequest{Request: weftOf(q)}
	if q.timeout != 0 {
		m.Timeout = durationpb.New(q.timeout)
	}
	got, err := exchange(stream, m)
	if err == nil && got.GetError() != nil {
		err = status.ErrorProto(got.GetError())
	}
	return ofWeft(got.GetResponse()), err
}

// exchange sends the only message of a stream, and returns the answer.
func exchange[Q, A any](stream interface {
	Send(Q) error
	CloseSend() error
	Recv() (A, error)
}, m Q,
) (A, error) {
	_ = stream.Send(m) // Recv has the error
	got, err := stream.Recv()
	return got, errors.Join(err, stream.CloseSend())
}

func inferenceOf(q *question) *inference.ModelInferRequest {
	m := &inference.ModelInferRequest{ModelName: q.model, Id: "a", Parameters: map[string]*inference.InferParameter{}}
	number := func(n int64) *inference.InferParameter {
		return &inference.InferParameter{ParameterChoice: &inference.InferParameter_Int64Param{Int64Param: n}}
	}
	if q.version != 0 {
		m.ModelVersion = strconv.FormatInt(q.version, 10)
	}
	if q.label != "" {
		m.Parameters["label"] = &inference.InferParameter{
			ParameterChoice: &inference.InferParameter_StringParam{StringParam: q.label},
		}
	}
	if q.episode != "" {
		m.Parameters["sequence_id"] = &inference.InferParameter{
			ParameterChoice: &inference.InferParameter_StringParam{StringParam: q.episode},
		}
	}
	if q.timeout != 0 {
		m.Parameters["timeout"] = number(q.timeout.Microseconds())
	}
	if q.sheddable {
		m.Parameters["priority"] = number(3)
	}
	for i, name := range q.names {
		t := &q.inputs[i]
		m.Inputs = append(m.Inputs, &inference.ModelInferRequest_InferInputTensor{
			Name: name, Datatype: strings.ToUpper(t.DType.String()), Shape: t.Shape,
		})
		m.RawInputContents = append(m.RawInputContents, t.Data)
	}
	for _, name := range q.outputs {
		m.Outputs = append(m.Outputs, &inference.ModelInferRequest_InferRequestedOutputTensor{Name: name})
	}
	return m
}

func ofInference(m *inference.ModelInferResponse) answer {
	a := answer{outputs: map[string][]byte{}, table: m.GetParameters()["table"].GetStringParam()}
	a.version, _ = strconv.ParseInt(m.GetModelVersion(), 10, 64)
	for i, o := range m.GetOutputs() {
		a.outputs[o.GetName()] = m.GetRawOutputContents()[i]
	}
	return a
}

func askInference(ctx context.Context, h *servertest.House, q *question) (answer, error) {
	m, err := inference.NewGRPCInferenceServiceClient(h.Conn).ModelInfer(ctx, inferenceOf(q))
	return ofInference(m), err
}

func askInferenceStream(ctx context.Context, h *servertest.House, q *question) (answer, error) {
	stream, err := inference.NewGRPCInferenceServiceClient(h.Conn).ModelStreamInfer(
		metadata.AppendToOutgoingContext(ctx, "triton_grpc_error", "true"))
	if err != nil {
		return answer{}, err
	}
	m, err := exchange(stream, inferenceOf(q))
	return ofInference(m.GetInferResponse()), err
}

func askWeb(ctx context.Context, h *servertest.House, q *question) (answer, error) {
	m := inferenceOf(q)
	parameters := map[string]any{"binary_data_output": true}
	for key, p := range m.GetParameters() {
		if parameters[key] = p.GetInt64Param(); p.GetStringParam() != "" {
			parameters[key] = p.GetStringParam()
		}
	}
	inputs, outputs := []map[string]any{}, []map[string]any{}
	for i, in := range m.GetInputs() {
		inputs = append(inputs, map[string]any{
			"name": in.GetName(), "datatype": in.GetDatatype(), "shape": in.GetShape(),
			"parameters": map[string]any{"binary_data_size": len(m.GetRawInputContents()[i])},
		})
	}
	for _, name := range q.outputs {
		outputs = append(outputs, map[string]any{"name": name})
	}
	head, err := json.Marshal(map[string]any{"inputs": inputs, "outputs": outputs, "parameters": parameters})
	if err != nil {
		return answer{}, err
	}
	path := "/v2/models/" + q.model
	if q.version != 0 {
		path += "/versions/" + m.GetModelVersion()
	}
	r := httptest.NewRequestWithContext(ctx, http.MethodPost, path+"/infer",
		strings.NewReader(string(head)+string(slices.Concat(m.GetRawInputContents()...))))
	const length = "Inference-Header-Content-Length"
	r.Header.Set(length, strconv.Itoa(len(head)))
	beside, _ := metadata.FromOutgoingContext(ctx)
	for key, values := range beside {
		for _, value := range values {
			r.Header.Add(key, value)
		}
	}
	w := httptest.NewRecorder()
	h.Web().ServeHTTP(w, r)
	var got struct {
		Error   string `json:"error"`
		Version int64  `json:"model_version,string"`
		By      struct {
			Table string `json:"table"`
		} `json:"parameters"`
		Outputs []struct {
			Name       string         `json:"name"`
			Parameters map[string]int `json:"parameters"`
		} `json:"outputs"`
	}
	body := w.Body.Bytes()
	n, err := strconv.Atoi(w.Header().Get(length))
	if err != nil {
		n = len(body)
	}
	if err := json.Unmarshal(body[:n], &got); err != nil || w.Code != http.StatusOK {
		return answer{}, &httpError{w.Code, got.Error}
	}
	a, behind := answer{got.Version, map[string][]byte{}, got.By.Table}, body[n:]
	for _, o := range got.Outputs {
		size := o.Parameters["binary_data_size"]
		a.outputs[o.Name], behind = behind[:size], behind[size:]
	}
	return a, nil
}

func askTensorFlow(ctx context.Context, h *servertest.House, q *question) (answer, error) {
	m := &serving.PredictRequest{
		ModelSpec: &serving.ModelSpec{Name: q.model}, OutputFilter: q.outputs, Inputs: map[string]*tensorflow.TensorProto{},
	}
	switch {
	case q.version != 0:
		m.ModelSpec.VersionChoice = &serving.ModelSpec_Version{Version: wrapperspb.Int64(q.version)}
	case q.label != "":
		m.ModelSpec.VersionChoice = &serving.ModelSpec_VersionLabel{VersionLabel: q.label}
	}
	types := map[tensor.DType]tensorflow.DataType{
		tensor.Float32: tensorflow.DataType_DT_FLOAT, tensor.Int64: tensorflow.DataType_DT_INT64,
	}
	for i, name := range q.names {
		t := &tensorflow.TensorProto{
			Dtype: types[q.inputs[i].DType], TensorContent: q.inputs[i].Data, TensorShape: &tensorflow.TensorShapeProto{},
		}
		for _, size := range q.inputs[i].Shape {
			t.TensorShape.Dim = append(t.TensorShape.Dim, &tensorflow.TensorShapeProto_Dim{Size: size})
		}
		m.Inputs[name] = t
	}
	ctx, cancel := within(ctx, q)
	defer cancel()
	var header metadata.MD
	got, err := serving.NewPredictionServiceClient(h.Conn).Predict(ctx, m, grpc.Header(&header))
	a := answer{got.GetModelSpec().GetVersion().GetValue(), map[string][]byte{}, strings.Join(header["weft-table"], " ")}
	for name, t := range got.GetOutputs() {
		a.outputs[name] = t.GetTensorContent()
	}
	return a, err
}

// TestProtocolsAnswerAlike: the same elements give the same outputs of the same version, and what a request asks for
// besides reaches the models.
func TestProtocolsAnswerAlike(t *testing.T) {
	for name, p := range protocols {
		t.Run(name, func(t *testing.T) {
			h := servertest.New(t, server.Config{})
			h.Current.Store(pair())
			var call catalog.Call
			h.Run = func(ctx context.Context, c *catalog.Call) error {
				call = *c
				return servertest.RunPolicy(ctx, c)
			}
			got, err := p.ask(t.Context(), h, ofPair())
			want := answer{2, map[string][]byte{"action": floats(1, 2, 5, 6), "value": floats(10, 26)}, "53801e6bc13d8976"}
			if diff := cmp.Diff(want, got, cmp.AllowUnexported(answer{})); err != nil || diff != "" {
				t.Errorf("%v (-want +got):\n%s", err, diff)
			}
			if call.Rows != 2 || call.Wanted != nil || call.Priority != sharedsched.Critical || !call.Limit.IsZero() {
				t.Errorf("call without wishes: %+v", call)
			}
			q := ofPair()
			q.label, q.outputs, q.timeout, q.sheddable = "stable", []string{"value"}, time.Hour, !p.noPriority
			got, err = p.ask(t.Context(), h, q)
			delete(want.outputs, "action")
			want.table = "" // the request chose
			if diff := cmp.Diff(want, got, cmp.AllowUnexported(answer{})); err != nil || diff != "" {
				t.Errorf("%v (-want +got):\n%s", err, diff)
			}
			left := time.Until(call.Limit)
			if left > time.Hour || left < 59*time.Minute || (call.Priority == sharedsched.SheddablePlus) == p.noPriority {
				t.Errorf("%v are left, and the priority is %v", left, call.Priority)
			}
		})
	}
}

// statusCodes are those of HTTP for errors of gRPC.
var statusCodes = map[codes.Code]int{
	codes.InvalidArgument: http.StatusBadRequest, codes.NotFound: http.StatusNotFound,
	codes.FailedPrecondition: http.StatusBadRequest, codes.Unavailable: http.StatusServiceUnavailable,
	codes.ResourceExhausted: http.StatusTooManyRequests, codes.DeadlineExceeded: http.StatusGatewayTimeout,
	codes.Canceled: 499, codes.Internal: http.StatusInternalServerError,
}

// TestProtocolsRefuseAlike: each kind of error has its code in every protocol, and names the model or the tensor. RAW
// is what the protocol calls raw elements.
func TestProtocolsRefuseAlike(t *testing.T) {
	shape := func(sizes ...int64) func(*question) { return func(q *question) { q.inputs[0].Shape = sizes } }
	outputs := func(names ...string) func(*question) { return func(q *question) { q.outputs = names } }
	again := func(as string) func(*question) {
		return func(q *question) { q.names, q.inputs = append(q.names, as), append(q.inputs, q.inputs[1]) }
	}
	full := &sharedsched.Refusal{Reason: sharedsched.RefusedQueueFull, Queued: 7, MaxQueue: 7, RetryAfter: 1}
	failed := catalog.ModelError{Model: "policy", Version: 2, Err: errors.New("boom")}
	large := failed
	large.Exceeded = 1
	const wrong, in = codes.InvalidArgument, `inputs["observation"]`
	for name, c := range map[string]struct {
		change func(*question)
		run    error // of the execution; nil: there is none
		code   codes.Code
		says   string
	}{
		"no model":      {func(q *question) { q.model = "" }, nil, wrong, "model.name: expected the name of a model, got none"},
		"unknown model": {func(q *question) { q.model = "polcy" }, nil, codes.NotFound, `no model is named "polcy"; there is "policy"`},
		"unknown version": {
			func(q *question) { q.version = 9 }, nil, codes.NotFound,
			`model "policy" has no version 9; there is 4 (failed), 3 (loading), 2`,
		},
		"unknown label": {
			func(q *question) { q.label = "canary" }, nil, codes.NotFound,
			`model "policy" has no label "canary"; there is "stable"`,
		},
		"a version that loads": {
			func(q *question) { q.version = 3 }, nil, codes.Unavailable, `model "policy" version 3 is loading; try again`,
		},
		"a version that failed": {
			func(q *question) { q.version = 4 }, nil, codes.FailedPrecondition,
			`model "policy" version 4 failed to load: model.onnx is not an ONNX file`,
		},
		"another type":    {func(q *question) { q.inputs[0].DType = tensor.Int64 }, nil, wrong, in + ".d"},
		"another shape":   {shape(2, 2, 2), nil, wrong, in + ".shape: expected [?,4], got [2,2,2]"},
		"negative shape":  {shape(-1, -4), nil, wrong, in + ".shape: expected [?,4], got [-1,-4]"},
		"negative rows":   {shape(-1, 4), nil, wrong, in + ".shape: expected dimensions that are not negative, of less than 2 GiB in all, got [-1,4]"},
		"a shape so huge": {shape(1<<62, 4), nil, wrong, in + ".shape: expected dimensions that are not negative, of less than 2 GiB"},
		"too many rows": {
			func(q *question) {
				q.inputs[0].Shape, q.inputs[0].Data = tensor.Shape{101, 4}, make([]byte, 16*101)
				q.inputs[1].Shape, q.inputs[1].Data = tensor.Shape{101}, make([]byte, 8*101)
			}, nil, wrong,
			in + ".shape: expected at most 100 rows in one request (batching.max_request_rows), got 101 rows in dimension 0 of",
		},
		"inputs of different rows": {
			func(q *question) { q.inputs[1].Shape, q.inputs[1].Data = tensor.Shape{3}, make([]byte, 24) }, nil, wrong,
			`inputs["task"].shape: expected 2 rows`,
		},
		"too few bytes": {
			func(q *question) { q.inputs[0].Data = q.inputs[0].Data[:31] }, nil, wrong,
			in + ".RAW: expected 32 bytes (shape [2,4] of fp32)",
		},
		"too many bytes": {func(q *question) { q.inputs[0].Data = make([]byte, 33) }, nil, wrong, "got 33 bytes"},
		"no input": {
			func(q *question) { q.names, q.inputs = nil, nil }, nil, wrong,
			in + ": expected a tensor of fp32 [?,4], got none of that name",
		},
		"a missing input": {
			func(q *question) { q.names, q.inputs = q.names[:1], q.inputs[:1] }, nil, wrong,
			`inputs["task"]: expected a tensor of int64 [?]`,
		},
		"a misspelt input": {
			func(q *question) { q.names[0] = "observati\u043en" }, nil, wrong,
			in + `: expected a tensor of fp32 [?,4], got none of that name, but "observati\u043en"`,
		},
		"a further input":   {again("more"), nil, wrong, `inputs: expected only "observation", "task", got also "more"`},
		"an input twice":    {again("task"), nil, wrong, "inputs: expected each input once"},
		"an unknown output": {outputs("action", "velue"), nil, wrong, `outputs[1]: expected one of "action", "value", got "velue"`},
		"an output twice":   {outputs("value", "value"), nil, wrong, `outputs[1]: expected each output once, got "value" again`},
		"too many outputs":  {outputs("", "", ""), nil, wrong, "outputs: expected at most 2 names, each once, got 3 names"},
		"a full queue":      {nil, full, codes.ResourceExhausted, `model "policy" version 2`},
		"time that is over": {nil, sharedsched.ErrExpired, codes.DeadlineExceeded, "the deadline passed"},
		"a cancelled call":  {nil, context.Canceled, codes.Canceled, "canceled"},
		"too much memory":   {nil, &large, codes.ResourceExhausted, "boom"},
		"a failure":         {nil, &failed, codes.Internal, "boom"},
		"a drain":           {nil, nil, codes.Unavailable, "draining"},
	} {
		for as, p := range protocols {
			if slices.Contains(p.never, name) {
				continue
			}
			t.Run(name+" in "+as, func(t *testing.T) {
				h := servertest.New(t, server.Config{})
				h.Current.Store(pair())
				h.Run = func(context.Context, *catalog.Call) error {
					if c.run == nil {
						t.Error("it was executed")
					}
					return c.run
				}
				q := ofPair()
				switch {
				case c.change != nil:
					c.change(q)
				case c.run == nil:
					if err := h.Drain(t.Context()); err != nil {
						t.Fatal(err)
					}
				}
				_, err := p.ask(t.Context(), h, q)
				says := strings.Replace(c.says, "RAW", p.raw, 1)
				refused, is := errors.AsType[*httpError](err)
				if !is {
					servertest.WantCode(t, err, c.code, says)
				} else if want := statusCodes[c.code]; refused.code != want || !strings.Contains(refused.text, says) {
					t.Errorf("%v\nwant %d: ...%s...", err, want, says)
				}
			})
		}
	}
}
