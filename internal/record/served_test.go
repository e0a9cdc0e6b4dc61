package record

import (
	"encoding/binary"
	"iter"
	"log/slog"
	"maps"
	"math"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/testing/protocmp"
	"google.golang.org/protobuf/types/known/durationpb"

	weftv1 "github.com/weftserve/weft/proto/gen/weft/v1"
	"github.com/weftserve/weft/runtime/tensor"
	"github.com/weftserve/weft/server/predict"
	"github.com/weftserve/weft/server/routing"
	"github.com/weftserve/weft/server/servertest"
	"github.com/weftserve/weft/server/status"
	"github.com/weftserve/weft/sharedsched"
)

// foreign is a request of a protocol that the recorder does not know.
type foreign map[string]tensor.Tensor

// Names implements predict.Codec.
func (f foreign) Names() iter.Seq[string] { return maps.Keys(f) }

// Decode implements predict.Codec.
func (f foreign) Decode(input *tensor.Spec) (tensor.Tensor, error) {
	t := f[input.Name]
	_, err := predict.Elements(input, t.Shape)
	return t, err
}

// Encode implements predict.Codec.
func (foreign) Encode(*predict.Result) error { return nil }

func floats(values ...float32) (data []byte) {
	for _, v := range values {
		data = binary.LittleEndian.AppendUint32(data, math.Float32bits(v))
	}
	return data
}

// TestRequestsOfAnyProtocolAreRecorded as messages of weft.v1, answered or not.
func TestRequestsOfAnyProtocolAreRecorded(t *testing.T) {
	dir := t.TempDir()
	w := begin(t, Config{Dir: dir}, nil)
	models := &servertest.House{Run: servertest.RunPolicy}
	models.Current.Store(servertest.PolicySnapshot())
	p := predict.New(predict.Config{Explain: status.Explain, Logger: slog.New(slog.DiscardHandler), Recorder: w},
		models)
	seen := tensor.Tensor{DType: tensor.Float32, Shape: tensor.Shape{1, 4}, Data: floats(1, 2, 3, 4)}
	for _, req := range []*predict.Request{
		{
			Model: "policy", Choice: routing.Choice{Version: new(int64(1))},
			ID: "a", Episode: "game", EndOfEpisode: true,
			Target: 5 * time.Millisecond, Priority: sharedsched.Sheddable, Outputs: []string{"value"},
			Inputs: 1, Codec: foreign{"observation": seen},
		},
		{
			Model: "policy", Choice: routing.Choice{Label: new("stable")}, Inputs: 1,
			Codec: foreign{"observation": {Shape: tensor.Shape{3}}},
		},
		{Model: "nonesuch", Codec: foreign{}},
	} {
		_, err := p.Predict(t.Context(), req)
		if p.Leave(req); (err == nil) != (req.ID == "a") {
			t.Errorf("the error of %+v is %v", req, err)
		}
	}
	end(t, w)

	fp32 := weftv1.DataType_DATA_TYPE_FP32
	request := &weftv1.PredictRequest{
		Model:     &weftv1.ModelSpec{Name: "policy", VersionChoice: &weftv1.ModelSpec_Version{Version: 1}},
		RequestId: "a", EpisodeId: "game", EndOfEpisode: true, TargetLatency: durationpb.New(5 * time.Millisecond),
		Priority: weftv1.Priority_PRIORITY_SHEDDABLE, Outputs: []string{"value"},
		Inputs: map[string]*weftv1.Tensor{"observation": {Dtype: fp32, Shape: []int64{1, 4}, Raw: seen.Data}},
	}
	response := &weftv1.PredictResponse{
		Model: request.GetModel(), RequestId: "a",
		Outputs: map[string]*weftv1.Tensor{"value": {Dtype: fp32, Shape: []int64{1}, Raw: floats(10)}},
		Execution: &weftv1.ExecutionInfo{
			QueueUs: 1000, ComputeUs: 2000, DeviceUs: 3000,
			Device: "cpu", FlushReason: weftv1.FlushReason_FLUSH_REASON_FULL,
			BatchRequests: 4, BatchRows: 5, PaddedRows: 6, Executions: 7,
		},
	}
	entries, damage := readAll(t, open(t, dir))
	if len(entries) != 3 || len(damage) != 0 {
		t.Fatalf("%d entries and %q, want 3 and none", len(entries), damage)
	}
	if diff := cmp.Diff(request, entries[0].Request, protocmp.Transform()); diff != "" {
		t.Errorf("request (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(response, entries[0].Response, protocmp.Transform()); diff != "" {
		t.Errorf("answer (-want +got):\n%s", diff)
	}
	for i, want := range []struct {
		code, label string
		version     int64
	}{{"OK", "", 1}, {"InvalidArgument", "stable", 1}, {"NotFound", "", 0}} {
		e := entries[i]
		if e.Code != want.code || e.Version != want.version || e.Request.GetModel().GetLabel() != want.label ||
			(e.Response != nil) != (i == 0) {
			t.Errorf("entry %d is %+v, want %+v", i, e, want)
		}
	}
}

// TestARequestWithoutRoomIsNotCopied: it is dropped, and counted.
func TestARequestWithoutRoomIsNotCopied(t *testing.T) {
	w := begin(t, Config{Dir: t.TempDir()}, nil)
	end(t, w)
	r := &predict.Recorded{Request: &predict.Request{Model: "policy"}}
	if n := testing.AllocsPerRun(10, func() { w.Keep(r) }); n > 0 {
		t.Errorf("a request that is dropped costs %v allocations", n)
	}
	if s := w.Stats(); s.Dropped != 11 || s.Written != 0 {
		t.Errorf("%+v, want 11 dropped", s)
	}
}
