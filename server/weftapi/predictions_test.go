package weftapi_test

import (
	"context"
	"encoding/binary"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/testing/protocmp"
	"google.golang.org/protobuf/types/known/durationpb"

	weftv1 "github.com/weftserve/weft/proto/gen/weft/v1"
	"github.com/weftserve/weft/runtime/catalog"
	"github.com/weftserve/weft/server"
	"github.com/weftserve/weft/server/servertest"
	"github.com/weftserve/weft/sharedsched"
)

func TestPredict(t *testing.T) {
	h := servertest.New(t, server.Config{})
	req := servertest.Observation("r1", 1, 2, 3, 4, 5, 6, 7, 8)
	got, err := h.Predictions.Predict(t.Context(), req)
	if err != nil {
		t.Fatal(err)
	}
	want := &weftv1.PredictResponse{
		Outputs: map[string]*weftv1.Tensor{
			"action": {Dtype: weftv1.DataType_DATA_TYPE_FP32, Shape: []int64{2, 2}, FloatValues: []float32{1, 2, 5, 6}},
			"value":  {Dtype: weftv1.DataType_DATA_TYPE_FP32, Shape: []int64{2}, FloatValues: []float32{10, 26}},
		},
		Model:     &weftv1.ModelSpec{Name: "policy", VersionChoice: &weftv1.ModelSpec_Version{Version: 2}},
		RequestId: "r1",
		Execution: &weftv1.ExecutionInfo{
			Slot: "prod", QueueUs: 1000, ComputeUs: 2000, DeviceUs: 3000, Device: "cpu", BatchRequests: 4, BatchRows: 5,
			PaddedRows: 6,
			Executions: 7, FlushReason: weftv1.FlushReason_FLUSH_REASON_FULL,
		},
	}
	if diff := cmp.Diff(want, got, protocmp.Transform()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestPredictRawInputsOneOutputByLabel(t *testing.T) {
	h := servertest.New(t, server.Config{})
	req := servertest.Observation("")
	req.Model.VersionChoice = &weftv1.ModelSpec_Label{Label: "stable"}
	req.Outputs = []string{"value"}
	in := req.GetInputs()["observation"]
	for _, v := range in.GetFloatValues() {
		in.Raw = binary.LittleEndian.AppendUint32(in.GetRaw(), math.Float32bits(v))
	}
	in.FloatValues = nil
	got, err := h.Predictions.Predict(t.Context(), req)
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]*weftv1.Tensor{
		"value": {
			Dtype: weftv1.DataType_DATA_TYPE_FP32, Shape: []int64{1},
			Raw: binary.LittleEndian.AppendUint32(nil, math.Float32bits(10)),
		},
	}
	if diff := cmp.Diff(want, got.GetOutputs(), protocmp.Transform()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if got.GetModel().GetVersion() != 1 || got.GetExecution().GetSlot() != "" {
		t.Errorf("version %d of slot %q answered", got.GetModel().GetVersion(), got.GetExecution().GetSlot())
	}
}

// TestPredictCall looks at the calls that reach the models.
func TestPredictCall(t *testing.T) {
	h := servertest.New(t, server.Config{})
	var seen catalog.Call
	h.Run = func(ctx context.Context, call *catalog.Call) error {
		seen = *call
		return servertest.RunPolicy(ctx, call)
	}
	req := servertest.Observation("")
	req.Priority = weftv1.Priority_PRIORITY_SHEDDABLE_PLUS
	req.TargetLatency = durationpb.New(7 * time.Millisecond)
	req.Outputs = []string{"value", "action"}
	deadline := time.Now().Add(time.Hour)
	ctx, cancel := context.WithDeadline(t.Context(), deadline)
	defer cancel()
	if _, err := h.Predictions.Predict(ctx, req); err != nil {
		t.Fatal(err)
	}
	if seen.Version.Number != 2 || seen.Rows != 1 || seen.Priority != sharedsched.SheddablePlus ||
		seen.Target != 7*time.Millisecond {
		t.Errorf("call is %+v", seen)
	}
	if diff := cmp.Diff([]int{1, 0}, seen.Wanted); diff != "" {
		t.Errorf("wanted outputs (-want +got):\n%s", diff)
	}
	// The deadline crosses the wire as a timeout.
	if off := seen.Limit.Sub(deadline).Abs(); off > time.Minute {
		t.Errorf("limit is %v off the deadline", off)
	}
	if _, err := h.Predictions.Predict(t.Context(), servertest.Observation("")); err != nil {
		t.Fatal(err)
	}
	if !seen.Limit.IsZero() || seen.Wanted != nil || seen.Priority != sharedsched.Critical {
		t.Errorf("call without wishes is %+v", seen)
	}
}

// TestPredictWithoutRows: also where rows are joined, the model answers a request without one.
func TestPredictWithoutRows(t *testing.T) {
	h := servertest.New(t, server.Config{})
	got, err := h.Predictions.Predict(t.Context(), servertest.Observation("", []float32{}...))
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string][]int64{"action": {0, 2}, "value": {0}} {
		if out := got.GetOutputs()[name]; !slices.Equal(out.GetShape(), want) {
			t.Errorf("output %s is %v, want the shape %v", name, out, want)
		}
	}
}

func TestPredictRefuses(t *testing.T) {
	h := servertest.New(t, server.Config{})
	many := make([]float32, 4*101)
	for _, tt := range []struct {
		name   string
		change func(*weftv1.PredictRequest)
		code   codes.Code
		want   string
	}{
		{
			"no model", func(r *weftv1.PredictRequest) { r.Model = nil }, codes.InvalidArgument,
			"model.name: expected the name of a model, got none",
		},
		{
			"long request id", func(r *weftv1.PredictRequest) { r.RequestId = strings.Repeat("x", 257) },
			codes.InvalidArgument, "request_id: expected at most 256 bytes, got 257 bytes",
		},
		{
			"long episode id", func(r *weftv1.PredictRequest) { r.EpisodeId = strings.Repeat("x", 257) },
			codes.InvalidArgument, "episode_id: expected at most 256 bytes, got 257 bytes",
		},
		{
			"priority", func(r *weftv1.PredictRequest) { r.Priority = 17 }, codes.InvalidArgument,
			"priority: expected one of PRIORITY_UNSPECIFIED, PRIORITY_CRITICAL, PRIORITY_CRITICAL_PLUS, " +
				"PRIORITY_SHEDDABLE, PRIORITY_SHEDDABLE_PLUS, got 17",
		},
		{
			"encoding", func(r *weftv1.PredictRequest) { r.OutputEncoding = -1 }, codes.InvalidArgument,
			"output_encoding: expected one of OUTPUT_ENCODING_UNSPECIFIED, OUTPUT_ENCODING_MIRROR, " +
				"OUTPUT_ENCODING_RAW, OUTPUT_ENCODING_TYPED, got -1",
		},
		{
			"negative target", func(r *weftv1.PredictRequest) { r.TargetLatency = durationpb.New(-1) },
			codes.InvalidArgument, "target_latency: expected a duration of at least 0s, got 0s -1ns",
		},
		{"malformed target", func(
			r *weftv1.PredictRequest,
		) {
			r.TargetLatency = &durationpb.Duration{Seconds: 1, Nanos: -1}
		}, codes.InvalidArgument, "target_latency: expected a duration of at least 0s, got 1s -1ns"},
		{
			"no input", func(r *weftv1.PredictRequest) { r.Inputs = nil }, codes.InvalidArgument,
			`inputs["observation"]: expected a tensor of fp32 [?,4], got none of that name`,
		},
		{
			"misspelt input", func(r *weftv1.PredictRequest) {
				r.Inputs = map[string]*weftv1.Tensor{"observatiоn": r.GetInputs()["observation"], "b": nil}
			}, codes.InvalidArgument,
			`inputs["observation"]: expected a tensor of fp32 [?,4], got none of that name, but "b", "observati\u043en"`,
		},
		{"many foreign inputs", func(r *weftv1.PredictRequest) {
			r.Inputs = map[string]*weftv1.Tensor{"a": nil, "b": nil, "c": nil, "d": nil, "e": nil}
		}, codes.InvalidArgument, `and more`},
		{
			"one input too many", func(r *weftv1.PredictRequest) { r.Inputs["extra"] = nil }, codes.InvalidArgument,
			`inputs: expected only "observation", got also "extra"`,
		},
		{
			"input without a value", func(r *weftv1.PredictRequest) { r.Inputs["observation"] = &weftv1.Tensor{} },
			codes.InvalidArgument, `inputs["observation"].dtype: expected fp32`,
		},
		{"dtype", func(r *weftv1.PredictRequest) {
			r.Inputs["observation"].Dtype = weftv1.DataType_DATA_TYPE_FP64
		}, codes.InvalidArgument, `inputs["observation"].dtype: expected fp32, got fp64`},
		{
			"shape", func(r *weftv1.PredictRequest) { r.Inputs["observation"].Shape = []int64{2, 2} },
			codes.InvalidArgument, `inputs["observation"].shape: expected [?,4], got [2,2]`,
		},
		{
			"negative dimensions", func(r *weftv1.PredictRequest) { r.Inputs["observation"].Shape = []int64{-1, -4} },
			codes.InvalidArgument, `inputs["observation"].shape: expected [?,4], got [-1,-4]`,
		},
		{
			"a negative dimension", func(r *weftv1.PredictRequest) { r.Inputs["observation"].Shape = []int64{-1, 4} },
			codes.InvalidArgument, `inputs["observation"].shape: expected dimensions that are not negative, of less than 2 GiB in all, got [-1,4]`,
		},
		{
			"too many rows", func(r *weftv1.PredictRequest) { r.Inputs = servertest.Observation("", many...).GetInputs() },
			codes.InvalidArgument, `inputs["observation"].shape: expected at most 100 rows in one request (batching.max_request_rows), got 101 rows in dimension 0 of [101,4]`,
		},
		{
			"unknown output", func(r *weftv1.PredictRequest) { r.Outputs = []string{"action", "velue"} },
			codes.InvalidArgument, `outputs[1]: expected one of "action", "value", got "velue"`,
		},
		{
			"output twice", func(r *weftv1.PredictRequest) { r.Outputs = []string{"action", "action"} },
			codes.InvalidArgument, `outputs[1]: expected each output once, got "action" again`,
		},
		{
			"too many outputs", func(r *weftv1.PredictRequest) { r.Outputs = make([]string, 3) }, codes.InvalidArgument,
			`outputs: expected at most 2 names, each once, got 3 names`,
		},
		{
			"unknown model", func(r *weftv1.PredictRequest) { r.Model.Name = "polcy" }, codes.NotFound,
			`no model is named "polcy"; there is "policy"`,
		},
		{"unknown version", func(
			r *weftv1.PredictRequest,
		) {
			r.Model.VersionChoice = &weftv1.ModelSpec_Version{Version: 9}
		}, codes.NotFound, `model "policy" has no version 9; there is 4 (failed), 3 (loading), 2, 1`},
		{"unknown label", func(r *weftv1.PredictRequest) { r.Model.VersionChoice = &weftv1.ModelSpec_Label{Label: "canary"} }, codes.NotFound, `model "policy" has no label "canary"; there is "stable"`},
		{"loading version", func(
			r *weftv1.PredictRequest,
		) {
			r.Model.VersionChoice = &weftv1.ModelSpec_Version{Version: 3}
		}, codes.Unavailable, `model "policy" version 3 is loading; try again`},
		{"failed version", func(
			r *weftv1.PredictRequest,
		) {
			r.Model.VersionChoice = &weftv1.ModelSpec_Version{Version: 4}
		}, codes.FailedPrecondition, "failed to load: model.onnx is not an ONNX file"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			req := servertest.Observation("")
			tt.change(req)
			_, err := h.Predictions.Predict(t.Context(), req)
			servertest.WantCode(t, err, tt.code, tt.want)
		})
	}
}

// TestEvilNames sends hostile names through every field that takes one. The answer must be an ordinary error whose
// trailers any client accepts.
func TestEvilNames(t *testing.T) {
	h := servertest.New(t, server.Config{})
	h.Run = func(context.Context, *catalog.Call) error { panic("a request with an evil name ran") }
	for what, name := range map[string]string{
		"parent": "../policy", "absolute": "/etc/passwd", "NUL": "policy\x00",
		"long":                    strings.Repeat("policy/", 64<<10/7),
		"long control characters": strings.Repeat("\x01", 64<<10), "look-alike": "pоlicy",
		"newline": "policy\nlevel=ERROR",
	} {
		t.Run(what, func(t *testing.T) {
			asVersion := servertest.Observation("")
			asVersion.Model.VersionChoice = &weftv1.ModelSpec_Label{Label: name}
			asModel := servertest.Observation("")
			asModel.Model.Name = name
			asInput := servertest.Observation("")
			asInput.Inputs[name] = &weftv1.Tensor{}
			asOutput := servertest.Observation("")
			asOutput.Outputs = []string{name}
			for field, call := range map[string]func(...grpc.CallOption) error{
				"model": func(o ...grpc.CallOption) error {
					_, err := h.Predictions.Predict(t.Context(), asModel, o...)
					return err
				},
				"label": func(o ...grpc.CallOption) error {
					_, err := h.Predictions.Predict(t.Context(), asVersion, o...)
					return err
				},
				"input": func(o ...grpc.CallOption) error {
					_, err := h.Predictions.Predict(t.Context(), asInput, o...)
					return err
				},
				"output": func(o ...grpc.CallOption) error {
					_, err := h.Predictions.Predict(t.Context(), asOutput, o...)
					return err
				},
				"metadata of": func(o ...grpc.CallOption) error {
					_, err := h.Predictions.GetModelMetadata(t.Context(),
						&weftv1.GetModelMetadataRequest{Model: asModel.GetModel()}, o...)
					return err
				},
				"model shown": func(o ...grpc.CallOption) error {
					_, err := h.Catalog.GetModel(t.Context(), &weftv1.GetModelRequest{Name: name}, o...)
					return err
				},
				"scheduler of": func(o ...grpc.CallOption) error {
					_, err := h.Catalog.GetSchedulerState(t.Context(), &weftv1.GetSchedulerStateRequest{Model: name},
						o...)
					return err
				},
			} {
				want := codes.NotFound
				if field == "input" || field == "output" {
					want = codes.InvalidArgument
				}
				var trailer metadata.MD
				err := call(grpc.Trailer(&trailer))
				st := status.Convert(err)
				if st.Code() != want {
					t.Errorf("%s: %v, want %v", field, err, want)
				}
				if len(st.Message()) > 700 {
					t.Errorf("%s: message of %d bytes", field, len(st.Message()))
				}
				for _, r := range st.Message() {
					if r < ' ' || r > '~' {
						t.Fatalf("%s: message holds %q", field, r)
					}
				}
				if size := trailerSize(trailer); size > 8<<10 {
					t.Errorf("%s: trailers of %d bytes", field, size)
				}
			}
		})
	}
}

func trailerSize(md metadata.MD) int {
	n := 0
	for key, values := range md {
		for _, v := range values {
			n += len(key) + len(v)*4/3
		}
	}
	return n
}
