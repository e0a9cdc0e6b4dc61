package weftapi_test

import (
	"fmt"
	"math"
	"slices"
	"sync"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protojson"

	weftv1 "github.com/weftserve/weft/proto/gen/weft/v1"
	"github.com/weftserve/weft/server"
	"github.com/weftserve/weft/server/rollout"
	"github.com/weftserve/weft/server/servertest"
	"github.com/weftserve/weft/server/servertest/script"
)

// reports remembers the reported outcomes.
type reports struct {
	rollout.Manager
	gone bool
	mu   sync.Mutex
	said []string // guarded by mu
}

func (r *reports) Report(
	model, episode string, version int64, values map[string]float64, tables []string, _ string,
) (there bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.said = append(r.said, fmt.Sprint(model, " ", episode, " ", version, " ", values, tables))
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

func TestReportOutcome(t *testing.T) {
	var said reports
	h := servertest.New(t, server.Config{Rollouts: &said})
	if _, err := h.Ask(t, "e"); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		request string
		code    codes.Code
	}{
		"remembered":      {`{"model": {"name": "policy"}, "episodeId": "e", "reward": 1.5, "success": true}`, codes.OK},
		"named":           {`{"model": {"name": "policy", "version": 1}, "episodeId": "f", "metrics": {"falls": 2}}`, codes.OK},
		"labelled":        {`{"model": {"name": "policy", "label": "stable"}, "episodeId": "g", "reward": 1}`, codes.OK},
		"not ready":       {`{"model": {"name": "policy", "version": 4}, "episodeId": "h", "reward": 1}`, codes.OK},
		"another label":   {`{"model": {"name": "policy", "label": "x"}, "episodeId": "g", "reward": 1}`, codes.NotFound},
		"version zero":    {`{"model": {"name": "policy", "version": 0}, "episodeId": "e", "reward": 1}`, codes.NotFound},
		"another model":   {`{"model": {"name": "nonesuch"}, "episodeId": "e", "reward": 1}`, codes.NotFound},
		"another version": {`{"model": {"name": "policy", "version": 9}, "episodeId": "e", "reward": 1}`, codes.NotFound},
		"no name":         {`{"model": {}, "episodeId": "e", "reward": 1}`, codes.InvalidArgument},
		"no model":        {`{"episodeId": "e", "reward": 1}`, codes.InvalidArgument},
		"no episode":      {`{"model": {"name": "policy"}, "reward": 1}`, codes.InvalidArgument},
		"unknown episode": {`{"model": {"name": "policy"}, "episodeId": "never", "reward": 1}`, codes.InvalidArgument},
		"no outcome":      {`{"model": {"name": "policy", "version": 1}, "episodeId": "f"}`, codes.InvalidArgument},
		"a name of ours": {
			`{"model": {"name": "policy", "version": 1}, "episodeId": "f", "metrics": {"reward": 2}}`, codes.InvalidArgument,
		},
		"no finite number": {
			`{"model": {"name": "policy", "version": 1}, "episodeId": "f", "reward": "Infinity"}`, codes.InvalidArgument,
		},
		"too large": {
			`{"model": {"name": "policy", "version": 1}, "episodeId": "f", "reward": 1.01e100}`, codes.InvalidArgument,
		},
	} {
		req := &weftv1.ReportOutcomeRequest{}
		if err := protojson.Unmarshal([]byte(c.request), req); err != nil {
			t.Fatal(name, err)
		}
		if _, err := h.Predictions.ReportOutcome(t.Context(), req); status.Code(err) != c.code {
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
	if want := []string{"policy e 1 map[reward:-1e+100] []"}; !slices.Equal(said.said, want) {
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
	script.Compare(t, "testdata/notkept.txt", map[string]string{"a version that is gone": script.JSON(got)})
	counted := []string{"policy/1", "policy/1: version_gone"}
	if outcomes := h.Outcomes(); !slices.Equal(outcomes, counted) {
		t.Errorf("counted %q, want %q", outcomes, counted)
	}
}
