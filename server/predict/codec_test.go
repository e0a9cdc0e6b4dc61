package predict_test

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/weftserve/weft/internal/weftest"
	"github.com/weftserve/weft/runtime/catalog"
	"github.com/weftserve/weft/runtime/tensor"
	"github.com/weftserve/weft/server/predict"
	"github.com/weftserve/weft/server/servertest"
	"github.com/weftserve/weft/server/status"
)

// heard is an observer and a recorder.
type heard struct {
	events   []predict.Event
	recorded []string // code, version, inputs and outputs
}

// RequestOffered implements predict.Observer.
func (*heard) RequestOffered(string, bool) {}

// RequestDone implements predict.Observer.
func (h *heard) RequestDone(_ context.Context, done *predict.Event) {
	e := *done
	e.Arrived, e.Ended, e.Duration, e.Execution = time.Time{}, time.Time{}, 0, predict.Execution{}
	h.events = append(h.events, e)
}

// Keep implements predict.Recorder.
func (h *heard) Keep(r *predict.Recorded) {
	line := []string{r.Code}
	for spec := range r.Inputs() {
		line = append(line, spec.Name)
	}
	if r.Result != nil {
		line = append(line, "->")
		for spec := range r.Result.Outputs() {
			line = append(line, spec.Name)
		}
	}
	h.recorded = append(h.recorded, strings.Join(line, " "))
}

// TestAnotherProtocol has a codec of a few lines serve a protocol that nothing else knows: its requests are answered,
// refused, counted and recorded like all others.
func TestAnotherProtocol(t *testing.T) {
	var hears heard
	models := &servertest.House{Run: servertest.RunPolicy}
	models.Current.Store(servertest.PolicySnapshot())
	p := predict.New(predict.Config{
		Explain: status.Explain, Logger: slog.New(slog.DiscardHandler), Observer: &hears, Recorder: &hears,
	}, models)
	var answers strings.Builder
	err := serveLines(t.Context(), p, strings.NewReader(`
{"id": "a", "model": "policy", "inputs": {"observation": {"shape": [1, 4], "values": [1, 2, 3, 4]}}}
{"id": "b", "model": "policy", "inputs": {"observation": {"shape": [1, 3], "values": [1, 2, 3]}}}
{"id": "c", "model": "policy", "inputs": {"observation": {"shape": [1, 4], "values": [1, 2, 3, 4]}, "sight": {}}}
{"id": "d", "model": "nonesuch"}
{"id": 5}
{"id": "e", "model": "policy", "inputs": {"observation": {"shape": [1, 4], "values": [1, 2, 3]}}}
`[1:]), &answers)
	if err != nil {
		t.Fatal(err)
	}
	want := `
{"id":"a","model":"policy","version":2,"outputs":{"action":{"shape":[1,2],"values":[1,2]},"value":{"shape":[1],"values":[10]}}}
{"id":"b","model":"policy","version":2,"error":"inputs[\"observation\"].shape: expected [?,4], got [1,3]"}
{"id":"c","model":"policy","version":2,"error":"inputs: expected only \"observation\", got also \"sight\""}
{"id":"d","error":"no model is named \"nonesuch\"; there is \"policy\""}
{"error":"line: expected a request as JSON, got none"}
{"id":"e","model":"policy","version":2,"error":"inputs[\"observation\"]: expected as many elements as its shape says, got shape [1,4] of fp32 asks for 4 elements of 4 bytes, got 12 bytes"}
`[1:]
	if diff := cmp.Diff(want, answers.String()); diff != "" {
		t.Errorf("answers (-want +got):\n%s", diff)
	}
	const invalid, refused = "INVALID_ARGUMENT", predict.Refused
	wrong := func(number uint64, id, message string) predict.Event {
		return predict.Event{
			Number: number, ID: id, Model: "policy", Version: 2, Slot: "prod", Code: "InvalidArgument", Ending: refused,
			Reason: invalid, Message: message,
		}
	}
	events := []predict.Event{
		{Number: 1, ID: "a", Model: "policy", Version: 2, Slot: "prod", Code: "OK", Ending: predict.Answered},
		wrong(2, "b", `inputs["observation"].shape: expected [?,4], got [1,3]`),
		wrong(3, "c", `inputs: expected only "observation", got also "sight"`),
		{
			Number: 4, ID: "d", Code: "NotFound", Ending: predict.Refused, Reason: "NOT_FOUND",
			Message: `no model is named "nonesuch"; there is "policy"`,
		},
		{
			Number: 5, Code: "InvalidArgument", Ending: refused, Reason: invalid,
			Message: "line: expected a request as JSON, got none",
		},
		wrong(6, "e", `inputs["observation"]: expected as many elements as its shape says, got shape [1,4] of fp32 asks `+
			"for 4 elements of 4 bytes, got 12 bytes"),
	}
	if diff := cmp.Diff(events, hears.events); diff != "" {
		t.Errorf("events (-want +got):\n%s", diff)
	}
	recorded := []string{
		"OK observation -> action value", "InvalidArgument", "InvalidArgument observation", "NotFound",
		"InvalidArgument", "InvalidArgument",
	}
	if diff := cmp.Diff(recorded, hears.recorded); diff != "" {
		t.Errorf("recorded (-want +got):\n%s", diff)
	}
	if n := p.Gate().Inside(); n != 0 {
		t.Errorf("%d requests are in the server still", n)
	}
}

// TestAnInputThatCameTwice: a codec counts the inputs that came, and names each once.
func TestAnInputThatCameTwice(t *testing.T) {
	models := &servertest.House{Run: servertest.RunPolicy}
	models.Current.Store(servertest.PolicySnapshot())
	p := predict.New(predict.Config{
		Explain: status.Explain, Logger: slog.New(slog.DiscardHandler), Observer: &heard{},
	}, models)
	l := &jsonLine{Inputs: map[string]jsonTensor{"observation": {Shape: tensor.Shape{1, 4}, Values: make([]float32, 4)}}}
	req := &predict.Request{Codec: l, Model: "policy", Inputs: 2}
	defer p.Leave(req)
	const want = "inputs: expected each input once, got 2 inputs for 1"
	if _, err := p.Predict(t.Context(), req); err == nil || err.Error() != want {
		t.Errorf("answered with %v, want %s", err, want)
	}
}

// TestInputsWithDefaults: a request may bring some of them, and is recorded with those.
func TestInputsWithDefaults(t *testing.T) {
	var hears heard
	var came []string
	models := &servertest.House{Run: func(ctx context.Context, call *catalog.Call) error {
		line := []string{fmt.Sprintf("%d rows, alone %t", call.Rows, call.Alone())}
		for _, in := range call.Inputs {
			line = append(line, in.DType.String()+in.Shape.String())
		}
		came = append(came, strings.Join(line, " "))
		return servertest.RunPolicy(ctx, call)
	}}
	snapshot := servertest.PolicySnapshot()
	v := snapshot.Model("policy").Version(2)
	v.Signature = v.Signature.Clone()
	v.Signature.Optional = []tensor.Spec{
		weftest.Spec("scale", tensor.Float32), weftest.Spec("bias", tensor.Float32, 2),
	}
	models.Current.Store(snapshot)
	p := predict.New(predict.Config{
		Explain: status.Explain, Logger: slog.New(slog.DiscardHandler), Recorder: &hears,
	}, models)
	var answers strings.Builder
	const observation = `{"model": "policy", "inputs": {"observation": {"shape": [1, 4], "values": [1, 2, 3, 4]}`
	if err := serveLines(t.Context(), p, strings.NewReader(strings.Join([]string{
		observation + `}}`,
		observation + `, "bias": {"shape": [2], "values": [1, 2]}}}`,
		observation + `, "bias": {"shape": [2], "values": [1, 2]}, "scale": {"shape": [], "values": [1]}}}`,
		observation + `, "bias": {"shape": [3], "values": [1, 2, 3]}}}`,
		observation + `, "bias": {"shape": [2], "values": [1, 2, 3]}}}`,
		observation + `, "bias": {"shape": [2], "values": [1, 2]}, "sight": {}}}`,
	}, "\n")), &answers); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{
		"1 rows, alone false fp32[1,4]", "1 rows, alone true fp32[1,4] invalid[] fp32[2]",
		"1 rows, alone true fp32[1,4] fp32[] fp32[2]",
	}, came); diff != "" {
		t.Errorf("calls (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{
		"OK observation -> action value", "OK observation bias -> action value",
		"OK observation scale bias -> action value", "InvalidArgument observation", "InvalidArgument observation",
		"InvalidArgument observation bias",
	}, hears.recorded); diff != "" {
		t.Errorf("recorded (-want +got):\n%s", diff)
	}
	for _, want := range []string{
		`inputs[\"bias\"].shape: expected [2], got [3]"`, `inputs[\"bias\"]: expected as many elements as its shape says`,
		`inputs: expected only \"observation\", \"scale\", \"bias\", got also \"sight\""`,
	} {
		if !strings.Contains(answers.String(), want) {
			t.Errorf("no answer has %s:\n%s", want, &answers)
		}
	}
}
