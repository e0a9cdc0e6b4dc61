package app

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/weftserve/weft/internal/onnxgraph/sketch"
	"github.com/weftserve/weft/internal/weftest"
	weftv1 "github.com/weftserve/weft/proto/gen/weft/v1"
)

// TestVerdictsOfStrangers leads a rollout of a model and a copy of it on a real server, while robots use some of
// their ids again, one request in twenty has an id that the model's table lacks, one outcome is wrong by far and
// corrected, and somebody who names the candidate reports wonders: nothing of that moves a verdict, nothing is lost,
// and no breaker opens.
func TestVerdictsOfStrangers(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes some seconds")
	}
	repository := t.TempDir()
	gather, err := sketch.Parse("i:i64[N]; Gather(f[1,2,3], i)")
	if err != nil {
		t.Fatal(err)
	}
	for version := range 2 {
		path := filepath.Join(repository, "gather", strconv.Itoa(version+1))
		if err := os.MkdirAll(path, 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(path, "model.onnx"), gather.Graph.Marshal(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	manifest := filepath.Join(repository, "gather", "model.yaml")
	if err := os.WriteFile(manifest, []byte("versions: {policy: all}\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	r := serveFrom(t, repository, nil)
	r.awaitReady(t)
	client, admin := weftv1.NewPredictionServiceClient(r.conn), weftv1.NewAdminServiceClient(r.admin)
	catalog := weftv1.NewModelServiceClient(r.conn)
	if _, err := admin.StartRollout(t.Context(), &weftv1.StartRolloutRequest{Rollout: &weftv1.Rollout{
		Model: "gather", BaselineVersion: 1, CandidateVersion: 2, Stages: []float64{50, 100}, Automatic: true,
		StageDuration: durationpb.New(time.Hour),
		Gate: &weftv1.Gate{
			Outcome: "reward", OutcomeMin: new(0.0), OutcomeMax: new(1.0), Margin: 0.3, MaxLatencyRatio: 1000,
		},
	}}); err != nil {
		t.Fatal(err)
	}
	rng := rand.New(rand.NewPCG(90211, 5))
	ask := func(spec *weftv1.ModelSpec, episode string, end bool, id int64) (codes.Code, string) {
		t.Helper()
		_, err := client.Predict(t.Context(), &weftv1.PredictRequest{
			Model: spec, EpisodeId: episode, EndOfEpisode: end, Inputs: map[string]*weftv1.Tensor{
				"i": {Dtype: weftv1.DataType_DATA_TYPE_INT64, Shape: []int64{1}, Int64Values: []int64{id}},
			},
		})
		return status.Code(err), fmt.Sprint(err)
	}
	report := func(spec *weftv1.ModelSpec, episode string, reward float64) {
		t.Helper()
		q := &weftv1.ReportOutcomeRequest{Model: spec, EpisodeId: episode, Reward: &reward}
		if answer, err := client.ReportOutcome(t.Context(), q); err != nil || len(answer.GetNotKept()) > 0 {
			t.Errorf("a report: %v, %v", answer, err)
		}
	}
	model, candidate := &weftv1.ModelSpec{Name: "gather"},
		&weftv1.ModelSpec{Name: "gather", VersionChoice: &weftv1.ModelSpec_Version{Version: 2}}
	const episodes, again, strangers, steps = 400, 8, 20, 4
	mistakes := 0
	for n := range episodes + again {
		robot := fmt.Sprintf("robot-%d/%d", n%8, n%episodes)
		for i := range steps {
			id := int64(rng.IntN(3))
			wrong := rng.IntN(20) == 0
			if wrong {
				id, mistakes = 7, mistakes+1
			}
			switch code, why := ask(model, robot, i == steps-1 && !wrong, id); {
			case wrong && code != codes.InvalidArgument && code != codes.Internal:
				t.Errorf("an id that is not there: %v", why)
			case wrong && code == codes.InvalidArgument && !strings.Contains(why, "takes the same inputs and failed on it too"):
				t.Errorf("an id that is not there: %v", why)
			case !wrong && code != codes.OK:
				t.Errorf("a good request: %v", why)
			}
		}
		if n == episodes/2 {
			report(model, robot, 1e17)
		}
		report(model, robot, rng.Float64())
		if n < strangers {
			ask(candidate, fmt.Sprint("made up ", n), true, 0)
			report(candidate, fmt.Sprint("made up ", n), 1)
		}
	}
	var state *weftv1.Rollout
	weftest.Until(t, "all episodes are counted", func() bool {
		answer, err := catalog.GetRollout(t.Context(), &weftv1.GetRolloutRequest{Model: "gather"})
		state = answer.GetRollout()
		b, c := state.GetReport().GetBaselineEpisodes(), state.GetReport().GetCandidateEpisodes()
		return err == nil && b.GetReported()+c.GetReported() == episodes && b.GetWaiting()+c.GetWaiting() == 0
	})
	e := state.GetReport()
	if state.GetState() != weftv1.RolloutState_ROLLOUT_STATE_RUNNING || len(state.GetSteps()) != 1 {
		t.Errorf("a copy was judged: %v after %v", state.GetState(), state.GetSteps())
	}
	for _, m := range e.GetMetrics() {
		if m.GetName() == "outcome" && m.GetBaselineCount()+m.GetCandidateCount() != episodes {
			t.Errorf("the outcome counts of %d and %d of %d episodes", m.GetBaselineCount(), m.GetCandidateCount(), episodes)
		}
		if name := m.GetName(); (name == "errors" || name == "failures") && m.GetCandidate()+m.GetBaseline() > 0.02 {
			t.Errorf("%s: callers' mistakes count: %v", name, m)
		}
	}
	for _, x := range e.GetExcluded() {
		want := map[string]int64{"outside": strangers, "repeated": 1, "same_draw": again}[x.GetReason()]
		if n := x.GetBaseline() + x.GetCandidate(); n != want {
			t.Errorf("%d are excluded as %s, want %d", n, x.GetReason(), want)
		}
	}
	if len(e.GetExcluded()) != 3 || e.GetSplit().GetMismatch() {
		t.Errorf("excluded %v, split %v", e.GetExcluded(), e.GetSplit())
	}
	for version := 1; version <= 2; version++ {
		if open := r.metric(t, fmt.Sprintf(`weft_breaker_open\{model="gather",version="%d"\}`, version)); open != "0" {
			t.Errorf("the breaker of version %d: open %s", version, open)
		}
	}
	t.Logf("%d of %d requests were mistakes; codes %v; split %v", mistakes, episodes*steps, e.GetCodes(), e.GetSplit())
}
