package openinference_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"github.com/weftserve/weft/internal/weftest"
	"github.com/weftserve/weft/proto/gen/inference"
	"github.com/weftserve/weft/runtime/catalog"
	"github.com/weftserve/weft/runtime/tensor"
	"github.com/weftserve/weft/server"
	"github.com/weftserve/weft/server/servertest"
	"github.com/weftserve/weft/server/servertest/script"
	"github.com/weftserve/weft/sharedsched"
)

// floats returns numbers as raw elements.
func floats(values ...float32) []byte {
	var raw []byte
	for _, v := range values {
		raw = binary.LittleEndian.AppendUint32(raw, math.Float32bits(v))
	}
	return raw
}

// observation is a request of so many rows of 1, 2, 3, 4.
func observation(id string, rows int) *inference.ModelInferRequest {
	return &inference.ModelInferRequest{
		ModelName: "policy", Id: id,
		Inputs: []*inference.ModelInferRequest_InferInputTensor{{
			Name: "observation", Datatype: "FP32", Shape: []int64{int64(rows), 4},
		}},
		RawInputContents: [][]byte{bytes.Repeat(floats(1, 2, 3, 4), rows)},
	}
}

func parameter(value any) *inference.InferParameter {
	switch v := value.(type) {
	case bool:
		return &inference.InferParameter{ParameterChoice: &inference.InferParameter_BoolParam{BoolParam: v}}
	case int:
		return &inference.InferParameter{ParameterChoice: &inference.InferParameter_Int64Param{Int64Param: int64(v)}}
	case uint64:
		return &inference.InferParameter{ParameterChoice: &inference.InferParameter_Uint64Param{Uint64Param: v}}
	default:
		return &inference.InferParameter{ParameterChoice: &inference.InferParameter_StringParam{StringParam: fmt.Sprint(v)}}
	}
}

func clientOf(h *servertest.House) inference.GRPCInferenceServiceClient {
	return inference.NewGRPCInferenceServiceClient(h.Conn)
}

// TestInfer: elements raw and in lists, small and large, give the same answers, which are raw.
func TestInfer(t *testing.T) {
	h := servertest.New(t, server.Config{})
	many := servertest.PolicySnapshot()
	many.Model("policy").Versions[1].Batching.MaxRequestRows = 0
	h.Current.Store(many)
	for _, rows := range []int{1, 3, 5000} {
		raw := observation("a", rows)
		typed := proto.CloneOf(raw)
		typed.RawInputContents = nil
		typed.Inputs[0].Contents = &inference.InferTensorContents{}
		for range rows {
			typed.Inputs[0].Contents.Fp32Contents = append(typed.Inputs[0].Contents.Fp32Contents, 1, 2, 3, 4)
		}
		odd := proto.CloneOf(raw) // which only the generated code reads
		odd.ProtoReflect().SetUnknown(protowire.AppendVarint(protowire.AppendTag(nil, 99, protowire.VarintType), 1))
		for name, q := range map[string]*inference.ModelInferRequest{"raw": raw, "typed": typed, "odd": odd} {
			q.Outputs = nil
			got, err := clientOf(h).ModelInfer(t.Context(), q)
			if err != nil {
				t.Fatalf("%d rows %s: %v", rows, name, err)
			}
			want := &inference.ModelInferResponse{
				ModelName: "policy", ModelVersion: "2", Id: "a",
				Parameters: map[string]*inference.InferParameter{
					"slot": parameter("prod"), "table": parameter("53801e6bc13d8976"),
				},
				Outputs: []*inference.ModelInferResponse_InferOutputTensor{
					{Name: "action", Datatype: "FP32", Shape: []int64{int64(rows), 2}},
					{Name: "value", Datatype: "FP32", Shape: []int64{int64(rows)}},
				},
				RawOutputContents: [][]byte{bytes.Repeat(floats(1, 2), rows), bytes.Repeat(floats(10), rows)},
			}
			if !proto.Equal(got, want) {
				t.Errorf("%d rows %s: %.300v\nwant %.300v", rows, name, got, want)
			}
		}
		raw.Outputs = []*inference.ModelInferRequest_InferRequestedOutputTensor{{Name: "value"}}
		got, err := clientOf(h).ModelInfer(t.Context(), raw)
		if err != nil || len(got.GetOutputs()) != 1 || len(got.GetRawOutputContents()) != 1 {
			t.Errorf("one output: %.300v, %v", got, err)
		}
	}
	h.GRPC.GracefulStop()
	h.Memory.WantAll()
}

// TestRefused is what only this protocol has; the test of all protocols has the others.
func TestRefused(t *testing.T) {
	h := servertest.New(t, server.Config{})
	const in = `inputs["observation"]`
	for name, c := range map[string]struct {
		change func(*inference.ModelInferRequest)
		says   string
	}{
		"version that is no number": {
			func(q *inference.ModelInferRequest) { q.ModelVersion = "stable" }, "model_version",
		},
		"negative version": {
			func(q *inference.ModelInferRequest) { q.ModelVersion = "-1" }, "model_version",
		},
		"raw and contents": {
			func(q *inference.ModelInferRequest) {
				q.Inputs[0].Contents = &inference.InferTensorContents{Fp32Contents: []float32{1, 2, 3, 4}}
			}, in + ": expected no contents beside raw_input_contents",
		},
		"two lists": {
			func(q *inference.ModelInferRequest) {
				q.RawInputContents = nil
				q.Inputs[0].Contents = &inference.InferTensorContents{
					Fp32Contents: []float32{1, 2, 3, 4}, Fp64Contents: []float64{1},
				}
			}, in + ": expected one representation of the elements, got contents.fp32_contents and",
		},
		"the list of another type": {
			func(q *inference.ModelInferRequest) {
				q.RawInputContents = nil
				q.Inputs[0].Contents = &inference.InferTensorContents{IntContents: []int32{1, 2, 3, 4}}
			}, in + ".contents.int_contents: expected fp32 elements in raw_input_contents or",
		},
		"no elements": {
			func(q *inference.ModelInferRequest) { q.RawInputContents = nil },
			in + ": expected 4 elements (shape [1,4]) in raw_input_contents or contents.fp32_contents, got none",
		},
		"more raw than inputs": {
			func(q *inference.ModelInferRequest) { q.RawInputContents = append(q.RawInputContents, nil) },
			"raw_input_contents: expected an entry for each of 1 inputs, got 2 entries",
		},
		"shared memory": {
			func(q *inference.ModelInferRequest) {
				q.Inputs[0].Parameters = map[string]*inference.InferParameter{"shared_memory_region": parameter("a")}
			}, in + `.parameters: expected both shared_memory_region and shared_memory_byte_size`,
		},
		"no classes": {
			func(q *inference.ModelInferRequest) {
				q.Outputs = []*inference.ModelInferRequest_InferRequestedOutputTensor{{
					Name: "value", Parameters: map[string]*inference.InferParameter{"classification": parameter(0)},
				}}
			}, `outputs["value"].parameters["classification"]: expected how many classes, 1 at least, got 0`,
		},
		"a reserved parameter": {
			func(q *inference.ModelInferRequest) {
				q.Parameters = map[string]*inference.InferParameter{"triton_x": parameter(true)}
			}, `parameters["triton_x"]`,
		},
		"a parameter of another type": {
			func(q *inference.ModelInferRequest) {
				q.Parameters = map[string]*inference.InferParameter{"timeout": parameter("soon")}
			}, `parameters["timeout"]: expected microseconds that are not negative, got "soon"`,
		},
		"a negative priority": {
			func(q *inference.ModelInferRequest) {
				q.Parameters = map[string]*inference.InferParameter{"priority": parameter(-1)}
			}, `parameters["priority"]`,
		},
		"a version and a label": {
			func(q *inference.ModelInferRequest) {
				q.ModelVersion, q.Parameters = "1", map[string]*inference.InferParameter{"label": parameter("stable")}
			}, "either a version or a label",
		},
	} {
		t.Run(name, func(t *testing.T) {
			q := observation("", 1)
			c.change(q)
			_, err := clientOf(h).ModelInfer(t.Context(), q)
			servertest.WantCode(t, err, codes.InvalidArgument, c.says)
		})
	}
}

// TestTexts: texts are raw, each behind its length, or in a list; framing that is wrong is refused.
func TestTexts(t *testing.T) {
	h := servertest.New(t, server.Config{})
	v := servertest.PolicyVersion(1, catalog.Ready)
	v.Signature = &tensor.Signature{
		Inputs:  []tensor.Spec{{Name: "x", DType: tensor.String, Shape: tensor.Shape{tensor.Unknown}, BatchDim: 0}},
		Outputs: []tensor.Spec{{Name: "y", DType: tensor.String, Shape: tensor.Shape{tensor.Unknown}, BatchDim: 0}},
	}
	h.Current.Store(servertest.SnapshotOf(2, &catalog.Model{Name: "policy", Versions: []*catalog.Version{v}}))
	h.Run = func(_ context.Context, call *catalog.Call) error {
		call.Results = []tensor.Tensor{call.Inputs[0].Clone()}
		return nil
	}
	ask := func(raw []byte, listed ...[]byte) ([]byte, error) {
		in := &inference.ModelInferRequest_InferInputTensor{Name: "x", Datatype: "BYTES", Shape: []int64{2}}
		q := &inference.ModelInferRequest{ModelName: "policy", Inputs: []*inference.ModelInferRequest_InferInputTensor{in}}
		if raw != nil {
			q.RawInputContents = [][]byte{raw}
		} else {
			in.Contents = &inference.InferTensorContents{BytesContents: listed}
		}
		answer, err := clientOf(h).ModelInfer(t.Context(), q)
		return slices.Concat(answer.GetRawOutputContents()...), err
	}
	const two = "\x02\x00\x00\x00\xff\x00\x00\x00\x00\x00"
	if got, err := ask([]byte(two)); err != nil || string(got) != two {
		t.Errorf("raw: %q, %v", got, err)
	}
	if got, err := ask(nil, []byte("\xff\x00"), []byte{}); err != nil || string(got) != two {
		t.Errorf("listed: %q, %v", got, err)
	}
	for raw, says := range map[string]string{
		two[:7]:                  "one that is cut short, at byte 6",
		two + "\x00\x00\x00\x00": "expected 2 texts (shape [2]), got 3 texts",
		two[:6]:                  "expected 2 texts (shape [2]), got 1 texts",
		"\xff\xff\xff\xffxxxx":   "one that is cut short, at byte 0",
	} {
		_, err := ask([]byte(raw))
		servertest.WantCode(t, err, codes.InvalidArgument, `inputs["x"].raw_input_contents: expected `)
		servertest.WantCode(t, err, codes.InvalidArgument, says)
	}
}

// TestHalves: fp16 and bf16 are raw only.
func TestHalves(t *testing.T) {
	h := servertest.New(t, server.Config{})
	v := servertest.PolicyVersion(1, catalog.Ready)
	v.Signature = &tensor.Signature{
		Inputs:  []tensor.Spec{{Name: "x", DType: tensor.Float16, Shape: tensor.Shape{1}, BatchDim: tensor.NoBatch}},
		Outputs: []tensor.Spec{{Name: "y", DType: tensor.Float16, Shape: tensor.Shape{1}, BatchDim: tensor.NoBatch}},
	}
	h.Current.Store(servertest.SnapshotOf(2, &catalog.Model{Name: "policy", Versions: []*catalog.Version{v}}))
	h.Run = func(_ context.Context, call *catalog.Call) error {
		call.Results = []tensor.Tensor{call.Inputs[0].Clone()}
		return nil
	}
	in := &inference.ModelInferRequest_InferInputTensor{Name: "x", Datatype: "FP16", Shape: []int64{1}}
	q := &inference.ModelInferRequest{
		ModelName: "policy", Inputs: []*inference.ModelInferRequest_InferInputTensor{in}, RawInputContents: [][]byte{{1, 2}},
	}
	got, err := clientOf(h).ModelInfer(t.Context(), q)
	if err != nil || got.GetOutputs()[0].GetDatatype() != "FP16" || string(got.GetRawOutputContents()[0]) != "\x01\x02" {
		t.Errorf("raw: %v, %v", got, err)
	}
	q.RawInputContents, in.Contents = nil, &inference.InferTensorContents{Fp32Contents: []float32{1}}
	_, err = clientOf(h).ModelInfer(t.Context(), q)
	servertest.WantCode(t, err, codes.InvalidArgument, "contents.fp32_contents: expected fp16 elements in raw_input_")
}

// TestParameters: what parameters ask for comes to the scheduler and the router.
func TestParameters(t *testing.T) {
	h := servertest.New(t, server.Config{})
	var call catalog.Call
	h.Run = func(ctx context.Context, c *catalog.Call) error {
		call = *c
		return servertest.RunPolicy(ctx, c)
	}
	ask := func(parameters map[string]any) {
		t.Helper()
		q := observation("", 1)
		q.Parameters = map[string]*inference.InferParameter{"of_nobody": parameter("x")}
		for key, value := range parameters {
			q.Parameters[key] = parameter(value)
		}
		if _, err := clientOf(h).ModelInfer(t.Context(), q); err != nil {
			t.Fatal(err)
		}
	}
	for level, want := range map[uint64]sharedsched.Priority{
		0: sharedsched.Critical, 1: sharedsched.CriticalPlus, 2: sharedsched.Critical, 3: sharedsched.SheddablePlus,
		4: sharedsched.Sheddable, 1 << 60: sharedsched.Sheddable,
	} {
		if ask(map[string]any{"priority": level}); call.Priority != want {
			t.Errorf("level %d is priority %v, want %v", level, call.Priority, want)
		}
	}
	if ask(map[string]any{"label": "stable"}); call.Version.Number != 1 {
		t.Errorf("the label leads to version %d", call.Version.Number)
	}
	ask(map[string]any{"timeout": 60_000_000, "target_latency": 5000})
	if left := time.Until(call.Limit); left < 50*time.Second || left > time.Minute || call.Target != 5*time.Millisecond {
		t.Errorf("%v are left, and the target is %v", left, call.Target)
	}
	if ask(map[string]any{"timeout": 0}); !call.Limit.IsZero() {
		t.Errorf("there is a limit: %v", call.Limit)
	}
	h.Divide(&catalog.Traffic{Split: []catalog.Slot{
		{Name: "a", Version: 1, Weight: 50}, {Name: "b", Version: 2, Weight: 50},
	}})
	ask(map[string]any{"sequence_id": "x", "sequence_start": true})
	first := call.Version.Number
	for range 20 {
		if ask(map[string]any{"sequence_id": "x"}); call.Version.Number != first {
			t.Fatal("an episode goes to two versions")
		}
	}
	if ask(map[string]any{"sequence_id": "x", "sequence_end": true}); h.Router().Episodes() != 0 {
		t.Error("an episode is remembered that has ended")
	}
}

// TestStream: answers carry the ids of their requests, faults are texts, or end the stream where that is asked for.
func TestStream(t *testing.T) {
	h := servertest.New(t, server.Config{})
	stream, err := clientOf(h).ModelStreamInfer(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	bad := observation("bad", 1)
	bad.ModelName = "x"
	last := observation("last", 2)
	last.Parameters = map[string]*inference.InferParameter{"triton_enable_empty_final_response": parameter(true)}
	for _, q := range []*inference.ModelInferRequest{observation("", 1), bad, last} {
		if err := stream.Send(q); err != nil {
			t.Fatal(err)
		}
	}
	if err := stream.CloseSend(); err != nil {
		t.Fatal(err)
	}
	got := map[string]*inference.ModelStreamInferResponse{}
	for range 3 {
		answer, err := stream.Recv()
		if err != nil {
			t.Fatal(err)
		}
		got[answer.GetInferResponse().GetId()] = answer
	}
	if a := got[""]; a.GetErrorMessage() != "" || len(a.GetInferResponse().GetRawOutputContents()) != 2 {
		t.Errorf("the first: %v", a)
	}
	if a := got["bad"]; !strings.Contains(a.GetErrorMessage(), `no model is named "x"`) {
		t.Errorf("the bad one: %v", a)
	}
	if a := got["last"].GetInferResponse(); !a.GetParameters()["triton_final_response"].GetBoolParam() {
		t.Errorf("the last: %v", a)
	}
	// The client half-closes at once: it learns of the fault also where the server sees that first.
	for range 50 {
		stream, err = clientOf(h).ModelStreamInfer(metadata.AppendToOutgoingContext(t.Context(), "triton_grpc_error", "true"))
		if err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(stream.Send(bad), stream.CloseSend()); err != nil {
			t.Fatal(err)
		}
		_, err = stream.Recv()
		servertest.WantCode(t, err, codes.NotFound, `no model is named "x"`)
	}
}

// TestFacts: what is said of the server and of a model.
func TestFacts(t *testing.T) {
	h := servertest.New(t, server.Config{Release: "v9"})
	client, ctx := clientOf(h), t.Context()
	if live, err := client.ServerLive(ctx, &inference.ServerLiveRequest{}); err != nil || !live.GetLive() {
		t.Errorf("live: %v, %v", live, err)
	}
	for _, want := range []bool{false, true} {
		if ready, err := client.ServerReady(ctx, &inference.ServerReadyRequest{}); err != nil || ready.GetReady() != want {
			t.Errorf("ready: %v, %v, want %v", ready, err, want)
		}
		h.Begin()
	}
	for version, want := range map[string]bool{"": true, "1": true, "3": false, "4": false} {
		ready, err := client.ModelReady(ctx, &inference.ModelReadyRequest{Name: "policy", Version: version})
		if err != nil || ready.GetReady() != want {
			t.Errorf("version %q: %v, %v, want %v", version, ready, err, want)
		}
	}
	_, err := client.ModelReady(ctx, &inference.ModelReadyRequest{Name: "x"})
	servertest.WantCode(t, err, codes.NotFound, `no model is named "x"`)
	shown := map[string]string{}
	for name, ask := range map[string]func() (proto.Message, error){
		"the server": func() (proto.Message, error) {
			return client.ServerMetadata(ctx, &inference.ServerMetadataRequest{})
		},
		"the model": func() (proto.Message, error) {
			return client.ModelMetadata(ctx, &inference.ModelMetadataRequest{Name: "policy"})
		},
		"a version": func() (proto.Message, error) {
			return client.ModelMetadata(ctx, &inference.ModelMetadataRequest{Name: "policy", Version: "1"})
		},
		"the configuration": func() (proto.Message, error) {
			return client.ModelConfig(ctx, &inference.ModelConfigRequest{Name: "policy"})
		},
		"the index": func() (proto.Message, error) {
			return client.RepositoryIndex(ctx, &inference.RepositoryIndexRequest{})
		},
		"the index of what is ready": func() (proto.Message, error) {
			return client.RepositoryIndex(ctx, &inference.RepositoryIndexRequest{Ready: true})
		},
	} {
		m, err := ask()
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
		shown[name] = script.JSON(m)
	}
	script.Compare(t, "testdata/facts.txt", shown)
	_, err = client.RepositoryModelUnload(ctx, &inference.RepositoryModelUnloadRequest{ModelName: "policy"})
	servertest.WantCode(t, err, codes.PermissionDenied, "--admin-listen")
	_, err = client.RepositoryModelLoad(ctx, &inference.RepositoryModelLoadRequest{ModelName: "policy"})
	servertest.WantCode(t, err, codes.PermissionDenied, "--admin-listen")
}

// TestConfigOfDefaults: inputs with a default are listed where dims have all dimensions, since they have no rows.
func TestConfigOfDefaults(t *testing.T) {
	h := servertest.New(t, server.Config{})
	snapshot := servertest.PolicySnapshot()
	v := snapshot.Model("policy").Version(2)
	v.Signature = v.Signature.Clone()
	v.Signature.Optional = []tensor.Spec{weftest.Spec("scale", tensor.Float32)}
	for _, v.Batching.Batched = range []bool{true, false} {
		h.Current.Store(snapshot)
		answer, err := clientOf(h).ModelConfig(t.Context(), &inference.ModelConfigRequest{Name: "policy", Version: "2"})
		in := answer.GetConfig().GetInput()
		if err != nil || v.Batching.Batched && len(in) != 1 || !v.Batching.Batched && (len(in) != 2 ||
			in[0].GetOptional() || in[1].GetName() != "scale" || !in[1].GetOptional() || len(in[1].GetDims()) != 0) {
			t.Errorf("batched %t: %v, %v", v.Batching.Batched, in, err)
		}
	}
}

// TestStatistics: requests of all protocols are counted, failed ones separately.
func TestStatistics(t *testing.T) {
	h := servertest.New(t, server.Config{})
	h.Run = func(ctx context.Context, call *catalog.Call) error {
		if call.Rows == 7 {
			return servertest.ErrBoom
		}
		call.Phases = catalog.Phases{Input: 1, Run: 2, Output: 3}
		return servertest.RunPolicy(ctx, call)
	}
	for _, rows := range []int{1, 2, 7} {
		_, _ = clientOf(h).ModelInfer(t.Context(), observation("", rows))
	}
	if _, err := h.Predictions.Predict(t.Context(), servertest.Observation("")); err != nil {
		t.Fatal(err)
	}
	all, err := clientOf(h).ModelStatistics(t.Context(), &inference.ModelStatisticsRequest{Name: "policy", Version: "2"})
	if err != nil || len(all.GetModelStats()) != 1 {
		t.Fatal(all, err)
	}
	m := all.GetModelStats()[0]
	x := m.GetInferenceStats()
	got := []uint64{
		m.GetInferenceCount(), x.GetSuccess().GetCount(), x.GetFail().GetCount(), x.GetQueue().GetCount(),
		x.GetQueue().GetNs(), x.GetComputeInput().GetNs(), x.GetComputeInfer().GetNs(), x.GetComputeOutput().GetNs(),
		x.GetComputeInfer().GetCount(),
	}
	if want := []uint64{4, 3, 1, 3, 3e6, 3, 6, 9, 3}; !slices.Equal(got, want) || m.GetLastInference() == 0 {
		t.Errorf("counted %v, want %v: %v", got, want, m)
	}
	all, err = clientOf(h).ModelStatistics(t.Context(), &inference.ModelStatisticsRequest{})
	if len(all.GetModelStats()) != 2 {
		t.Errorf("of all: %v, %v", all, err)
	}
	h.Current.Store(servertest.SnapshotOf(2))
	h.ModelsChanged()
	h.Current.Store(servertest.PolicySnapshot())
	all, err = clientOf(h).ModelStatistics(t.Context(), &inference.ModelStatisticsRequest{Name: "policy", Version: "2"})
	if err != nil || all.GetModelStats()[0].GetInferenceCount() != 0 {
		t.Errorf("a version that was gone is counted on: %v, %v", all, err)
	}
}
