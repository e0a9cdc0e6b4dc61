package weftapi_test

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/emptypb"

	weftv1 "github.com/weftserve/weft/proto/gen/weft/v1"
	"github.com/weftserve/weft/runtime/catalog"
	"github.com/weftserve/weft/server"
	"github.com/weftserve/weft/server/servertest"
	"github.com/weftserve/weft/server/servertest/script"
)

func TestPredict(t *testing.T) {
	h := servertest.New(t, server.Config{})
	req := servertest.Observation("r1", 1, 2, 3, 4, 5, 6, 7, 8)
	got, err := h.Predictions.Predict(t.Context(), req)
	if err != nil {
		t.Fatal(err)
	}
	script.Compare(t, "testdata/answer.txt", map[string]string{"two rows": script.JSON(got)})
}

// TestPredictCall looks at a call that reaches the models.
func TestPredictCall(t *testing.T) {
	h := servertest.New(t, server.Config{})
	var seen catalog.Call
	h.Run = func(ctx context.Context, call *catalog.Call) error {
		seen = *call
		return servertest.RunPolicy(ctx, call)
	}
	req := servertest.Observation("")
	req.TargetLatency = durationpb.New(7 * time.Millisecond)
	req.Outputs = []string{"value", "action"}
	if _, err := h.Predictions.Predict(t.Context(), req); err != nil {
		t.Fatal(err)
	}
	if seen.Target != 7*time.Millisecond || !slices.Equal(seen.Wanted, []int{1, 0}) {
		t.Errorf("call is %+v", seen)
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

// TestPredictRefuses is what only weft.v1 has; the test of all protocols has the others.
func TestPredictRefuses(t *testing.T) {
	h := servertest.New(t, server.Config{})
	for want, change := range map[string]func(*weftv1.PredictRequest){
		"request_id: expected at most 256 bytes, got 257 bytes": func(r *weftv1.PredictRequest) {
			r.RequestId = strings.Repeat("x", 257)
		},
		"episode_id: expected at most 256 bytes, got 257 bytes": func(r *weftv1.PredictRequest) {
			r.EpisodeId = strings.Repeat("x", 257)
		},
		"priority: expected one of PRIORITY_UNSPECIFIED, PRIORITY_CRITICAL, PRIORITY_CRITICAL_PLUS, " +
			"PRIORITY_SHEDDABLE, PRIORITY_SHEDDABLE_PLUS, got 17": func(r *weftv1.PredictRequest) { r.Priority = 17 },
		"output_encoding: expected one of OUTPUT_ENCODING_UNSPECIFIED, OUTPUT_ENCODING_MIRROR, OUTPUT_ENCODING_RAW, " +
			"OUTPUT_ENCODING_TYPED, got -1": func(r *weftv1.PredictRequest) { r.OutputEncoding = -1 },
		"target_latency: expected a duration of at least 0s, got 0s -1ns": func(r *weftv1.PredictRequest) {
			r.TargetLatency = durationpb.New(-1)
		},
		"target_latency: expected a duration of at least 0s, got 1s -1ns": func(r *weftv1.PredictRequest) {
			r.TargetLatency = &durationpb.Duration{Seconds: 1, Nanos: -1}
		},
		"and more": func(r *weftv1.PredictRequest) {
			r.Inputs = map[string]*weftv1.Tensor{"a": nil, "b": nil, "c": nil, "d": nil, "e": nil}
		},
		`inputs["observation"].dtype: expected fp32`: func(r *weftv1.PredictRequest) {
			r.Inputs["observation"] = &weftv1.Tensor{}
		},
	} {
		req := servertest.Observation("")
		change(req)
		_, err := h.Predictions.Predict(t.Context(), req)
		servertest.WantCode(t, err, codes.InvalidArgument, want)
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
			const predict = weftv1.PredictionService_Predict_FullMethodName
			for field, call := range map[string]struct {
				method string
				m      any
			}{
				"model": {predict, asModel}, "label": {predict, asVersion}, "input": {predict, asInput}, "output": {predict, asOutput},
				"metadata of": {
					weftv1.PredictionService_GetModelMetadata_FullMethodName,
					&weftv1.GetModelMetadataRequest{Model: asModel.GetModel()},
				},
				"model shown": {weftv1.ModelService_GetModel_FullMethodName, &weftv1.GetModelRequest{Name: name}},
				"scheduler of": {
					weftv1.ModelService_GetSchedulerState_FullMethodName, &weftv1.GetSchedulerStateRequest{Model: name},
				},
			} {
				want := codes.NotFound
				if field == "input" || field == "output" {
					want = codes.InvalidArgument
				}
				var trailer metadata.MD
				err := h.Conn.Invoke(t.Context(), call.method, call.m, &emptypb.Empty{}, grpc.Trailer(&trailer))
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
