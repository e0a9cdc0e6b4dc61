package weftapi_test

import (
	"fmt"
	"math"
	"slices"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/testing/protocmp"

	weftv1 "github.com/weftserve/weft/proto/gen/weft/v1"
	"github.com/weftserve/weft/server"
	"github.com/weftserve/weft/server/rollout"
	"github.com/weftserve/weft/server/servertest"
)

// reports remembers the reported outcomes.
type reports struct {
	rollout.Manager
	gone bool
	mu   sync.Mutex
	said []string // guarded by mu
}

func (r *reports) Report(
	model, episode string, version int64, values map[string]float64, _ string,
) (there bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.said = append(r.said, fmt.Sprint(model, " ", episode, " ", version, " ", values))
	return !r.gone
}

func (r *reports) Observe(string, int64, rollout.Ending) {}

func (r *reports) Begun(string, int64, rollout.Beginning) {}

// spec names a version of a model; 0: none.
func spec(model string, version int64) *weftv1.ModelSpec {
	s := &weftv1.ModelSpec{Name: model}
	if version > 0 {
		s.VersionChoice = &weftv1.ModelSpec_Version{Version: version}
	}
	return s
}

func label(model, name string) *weftv1.ModelSpec {
	return &weftv1.ModelSpec{Name: model, VersionChoice: &weftv1.ModelSpec_Label{Label: name}}
}

func TestReportOutcome(t *testing.T) {
	var said reports
	h := servertest.New(t, server.Config{Rollouts: &said})
	if _, err := h.Ask(t, "e"); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		req  *weftv1.ReportOutcomeRequest
		code codes.Code
	}{
		"remembered": {&weftv1.ReportOutcomeRequest{
			Model: spec("policy", 0), EpisodeId: "e", Reward: new(1.5),
			Success: new(true),
		}, codes.OK},
		"named": {&weftv1.ReportOutcomeRequest{
			Model:     spec("policy", 1),
			EpisodeId: "f", Metrics: map[string]float64{"falls": 2},
		}, codes.OK},
		"labelled": {&weftv1.ReportOutcomeRequest{
			Model:     label("policy", "stable"),
			EpisodeId: "g", Reward: new(1.0),
		}, codes.OK},
		"not ready": {
			&weftv1.ReportOutcomeRequest{Model: spec("policy", 4), EpisodeId: "h", Reward: new(1.0)},
			codes.OK,
		},
		"another label": {&weftv1.ReportOutcomeRequest{
			Model:     label("policy", "nonesuch"),
			EpisodeId: "g", Reward: new(1.0),
		}, codes.NotFound},
		"version zero": {&weftv1.ReportOutcomeRequest{Model: &weftv1.ModelSpec{
			Name:          "policy",
			VersionChoice: &weftv1.ModelSpec_Version{},
		}, EpisodeId: "e", Reward: new(1.0)}, codes.NotFound},
		"no name": {
			&weftv1.ReportOutcomeRequest{Model: &weftv1.ModelSpec{}, EpisodeId: "e", Reward: new(1.0)},
			codes.InvalidArgument,
		},
		"no model": {&weftv1.ReportOutcomeRequest{EpisodeId: "e", Reward: new(1.0)}, codes.InvalidArgument},
		"another model": {
			&weftv1.ReportOutcomeRequest{Model: spec("nonesuch", 0), EpisodeId: "e", Reward: new(1.0)},
			codes.NotFound,
		},
		"another version": {
			&weftv1.ReportOutcomeRequest{Model: spec("policy", 9), EpisodeId: "e", Reward: new(1.0)},
			codes.NotFound,
		},
		"no episode": {
			&weftv1.ReportOutcomeRequest{Model: spec("policy", 0), Reward: new(1.0)},
			codes.InvalidArgument,
		},
		"unknown episode": {&weftv1.ReportOutcomeRequest{
			Model:     spec("policy", 0),
			EpisodeId: "never", Reward: new(1.0),
		}, codes.InvalidArgument},
		"no outcome": {
			&weftv1.ReportOutcomeRequest{Model: spec("policy", 1), EpisodeId: "f"},
			codes.InvalidArgument,
		},
		"a name of ours": {&weftv1.ReportOutcomeRequest{
			Model:     spec("policy", 1),
			EpisodeId: "f", Metrics: map[string]float64{"reward": 2},
		}, codes.InvalidArgument},
		"no finite number": {&weftv1.ReportOutcomeRequest{
			Model:     spec("policy", 1),
			EpisodeId: "f", Reward: new(math.Inf(1)),
		}, codes.InvalidArgument},
		"too large": {
			&weftv1.ReportOutcomeRequest{Model: spec("policy", 1), EpisodeId: "f", Reward: new(1.01e100)},
			codes.InvalidArgument,
		},
	} {
		if _, err := h.Predictions.ReportOutcome(t.Context(), c.req); status.Code(err) != c.code {
			t.Errorf("%s: %v, want %v", name, err, c.code)
		}
	}
	if len(said.said) != 4 {
		t.Errorf("reported %q, want four reports", said.said)
	}
	if outcomes := slices.Sorted(slices.Values(h.Outcomes())); !slices.Equal(outcomes,
		[]string{"policy/1", "policy/1", "policy/2", "policy/4"}) {
		t.Errorf("counted %q", outcomes)
	}
}

// TestReportWhatCannotBeKept: a caller that reports a number that can never be kept learns which and why, and nothing
// of the report counts.
func TestReportWhatCannotBeKept(t *testing.T) {
	var said reports
	h := servertest.New(t, server.Config{Rollouts: &said})
	for name, c := range map[string]struct {
		req                *weftv1.ReportOutcomeRequest
		field, description string
	}{
		"reward": {
			&weftv1.ReportOutcomeRequest{Reward: new(-1.01e100)}, "reward",
			"expected a number from -1e+100 to 1e+100, got -1.01e+100",
		},
		"metric": {
			&weftv1.ReportOutcomeRequest{Reward: new(1.0), Metrics: map[string]float64{"falls": math.NaN()}},
			`metrics["falls"]`,
			"expected a number from -1e+100 to 1e+100, got NaN",
		},
	} {
		c.req.Model, c.req.EpisodeId = spec("policy", 1), "e"
		_, err := h.Predictions.ReportOutcome(t.Context(), c.req)
		field, description := violation(err)
		if status.Code(err) != codes.InvalidArgument || field != c.field || description != c.description {
			t.Errorf("%s: %v\nfield %q, %q", name, err, field, description)
		}
	}
	edge := &weftv1.ReportOutcomeRequest{Model: spec("policy", 1), EpisodeId: "e", Reward: new(-1e100)}
	if _, err := h.Predictions.ReportOutcome(t.Context(), edge); err != nil {
		t.Error(err)
	}
	if want := []string{"policy e 1 map[reward:-1e+100]"}; !slices.Equal(said.said, want) {
		t.Errorf("reported %q, want %q", said.said, want)
	}
}

// TestReportThatIsNotKept: a number for which there is no room is in the answer and is counted.
func TestReportThatIsNotKept(t *testing.T) {
	said := reports{gone: true}
	h := servertest.New(t, server.Config{Rollouts: &said})
	got, err := h.Predictions.ReportOutcome(t.Context(),
		&weftv1.ReportOutcomeRequest{Model: spec("policy", 1), EpisodeId: "e", Reward: new(1.0)})
	if err != nil {
		t.Fatal(err)
	}
	want := &weftv1.ReportOutcomeResponse{
		Model: &weftv1.ModelSpec{Name: "policy", VersionChoice: &weftv1.ModelSpec_Version{Version: 1}},
		NotKept: []*weftv1.OutcomeNotKept{
			{
				Name: "reward", Reason: weftv1.NotKeptReason_NOT_KEPT_REASON_VERSION_GONE,
				Message: `version 1 of model "policy" is not there any more`,
			},
		},
	}
	if diff := cmp.Diff(want, got, protocmp.Transform()); diff != "" {
		t.Errorf("answer (-want +got)\n%s", diff)
	}
	counted := []string{"policy/1", "policy/1: version_gone"}
	if outcomes := h.Outcomes(); !slices.Equal(outcomes, counted) {
		t.Errorf("counted %q, want %q", outcomes, counted)
	}
}
