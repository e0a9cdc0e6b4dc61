package weftclient_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/weftserve/weft/proto/weftclient"
	"github.com/weftserve/weft/runtime/catalog"
	"github.com/weftserve/weft/sharedsched"
)

func TestPredict(t *testing.T) {
	calls := make(chan *catalog.Call, 1)
	client := dial(t, func(_ context.Context, call *catalog.Call) error {
		calls <- call
		return nil
	})
	q := observation()
	q.Outputs, q.Episode, q.ID = []string{"action"}, "robot-7", "first"
	q.Priority, q.Target = weftclient.SheddablePlus, 5*time.Millisecond
	answer, err := client.Predict(t.Context(), q)
	if err != nil {
		t.Fatal(err)
	}
	action, err := weftclient.Values[float32](answer.Outputs["action"])
	if diff := cmp.Diff([]float32{1, 2}, action); diff != "" || err != nil {
		t.Errorf("action (-want +got):\n%s%v", diff, err)
	}
	if len(answer.Outputs) != 1 || answer.Model != "policy" || answer.Version != 2 || answer.ID != "first" ||
		answer.Slot != "prod" || answer.Execution.GetBatchRows() != 5 {
		t.Errorf("%+v", answer)
	}
	call := <-calls
	if call.Priority != sharedsched.SheddablePlus || call.Target != q.Target {
		t.Errorf("priority %v, target %v", call.Priority, call.Target)
	}
}

func TestChoice(t *testing.T) {
	client := dial(t, nil)
	for want, model := range map[int64]*weftclient.ModelSpec{
		2: weftclient.Version("policy", 2), 1: weftclient.Label("policy", "stable"),
	} {
		q := observation()
		q.Model = model
		answer, err := client.Predict(t.Context(), q)
		if err != nil || answer.Version != want {
			t.Errorf("%v: %+v, %v", model, answer, err)
		}
		about, err := client.Metadata(t.Context(), model)
		if err != nil || about.GetModel().GetVersion() != want ||
			about.GetSignature().GetInputs()[0].GetName() != "observation" {
			t.Errorf("%v: %v, %v", model, about, err)
		}
	}
}

func TestModels(t *testing.T) {
	models, err := dial(t, nil).Models(t.Context())
	if err != nil || len(models) != 14*4+2 || len(models[len(models)-1].GetVersions()) == 0 {
		t.Errorf("%d models, %v", len(models), err)
	}
}

// TestBeside: a hash ring finds the server of an episode by metadata, if these can carry its name.
func TestBeside(t *testing.T) {
	const blank = "robot-7 "
	for episode, want := range map[string]string{
		"robot-7/42": "map[weft-episode:[robot-7/42] weft-model:[policy]]", "": "map[weft-model:[policy]]",
		"ünï": "map[weft-model:[policy]]", "e\n": "map[weft-model:[policy]]", blank: "map[weft-model:[policy]]",
	} {
		sent, _ := metadata.FromOutgoingContext(weftclient.Beside(t.Context(), "policy", episode))
		if got := fmt.Sprint(map[string][]string(sent)); got != want {
			t.Errorf("%q: %s, want %s", episode, got, want)
		}
		var came metadata.MD
		client := dial(t, func(ctx context.Context, _ *catalog.Call) error {
			came, _ = metadata.FromIncomingContext(ctx)
			return nil
		})
		q := observation()
		q.Episode = episode
		answer, err := client.Predict(t.Context(), q)
		if err != nil || fmt.Sprint(came["weft-episode"]) != fmt.Sprint(sent["weft-episode"]) || len(answer.Table) != 16 {
			t.Errorf("%q: %v, %+v, %v", episode, came, answer, err)
		}
	}
}

func TestReportOutcome(t *testing.T) {
	client := dial(t, nil)
	report := &weftclient.Outcome{
		Model: weftclient.Version("policy", 2), Episode: "robot-7", Reward: new(3.5), Success: new(true),
		Metrics: map[string]float64{"falls": 1},
	}
	answer, err := client.ReportOutcome(t.Context(), report)
	if err != nil || answer.GetModel().GetVersion() != 2 {
		t.Errorf("%v, %v", answer, err)
	}
	report.Reward, report.Success, report.Metrics = nil, nil, nil
	if _, err := client.ReportOutcome(t.Context(), report); status.Code(err) != codes.InvalidArgument {
		t.Errorf("a report of nothing: %v", err)
	}
}
