package server_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/testing/protocmp"

	weftv1 "github.com/weftserve/weft/proto/gen/weft/v1"
	"github.com/weftserve/weft/runtime/catalog"
	"github.com/weftserve/weft/server"
	"github.com/weftserve/weft/server/breaker"
	"github.com/weftserve/weft/server/rollout"
	"github.com/weftserve/weft/server/shadow"
)

// divide gives the policy traffic.
func (h *house) divide(t *catalog.Traffic) {
	s := houseSnapshot()
	s.Revision = 2
	s.Model("policy").Traffic = t
	h.snapshot.Store(s)
}

// ask sends one observation in an episode.
func (h *house) ask(t *testing.T, episode string) (*weftv1.PredictResponse, error) {
	t.Helper()
	return h.predict.Predict(t.Context(), &weftv1.PredictRequest{
		Model: &weftv1.ModelSpec{Name: "policy"}, EpisodeId: episode, RequestId: "first of " + episode,
		Inputs: map[string]*weftv1.Tensor{"observation": {Dtype: weftv1.DataType_DATA_TYPE_FP32, Shape: []int64{1, 4}, FloatValues: make([]float32, 4)}},
	})
}

var errModel = errors.New("the model is broken")

// TestBreakerTurnsNewEpisodesAway has version 2 fail: requests of new episodes go to version 1, and say so. A version that is merely
// overloaded, or fails on inputs of which others of the batch were answered, keeps its requests.
func TestBreakerTurnsNewEpisodesAway(t *testing.T) {
	for name, c := range map[string]struct {
		err   error
		opens bool
	}{
		"fault":    {&catalog.ModelError{Model: "policy", Version: 2, Err: errModel}, true},
		"poison":   {&catalog.ModelError{Model: "policy", Version: 2, Mates: 3, Err: errModel}, false},
		"overload": {catalog.ErrDeviceLost, false},
	} {
		t.Run(name, func(t *testing.T) {
			h := newHouse(t, server.Config{}, server.Transport{})
			h.divide(&catalog.Traffic{Revision: 1, Split: []catalog.Slot{{Name: "a", Version: 1, Weight: 0.001}, {Name: "b", Version: 2, Weight: 1000}}})
			h.run = func(ctx context.Context, call *catalog.Call) error {
				if call.Version.Number == 2 {
					return c.err
				}
				return runPolicy(ctx, call)
			}
			for i := range 30 {
				if _, err := h.ask(t, fmt.Sprint("first", i)); err == nil && !c.opens {
					t.Fatal("a request was answered by another version")
				}
			}
			answer, err := h.ask(t, "new")
			if !c.opens {
				if err == nil || h.Breakers() != nil && h.Breakers()[0].State != breaker.Closed {
					t.Errorf("the breaker opened: %v, %v", err, h.Breakers())
				}
				return
			}
			if err != nil || answer.GetModel().GetVersion() != 1 || answer.GetExecution().GetFailedOverFrom() != 2 || answer.GetExecution().GetSlot() != "a" {
				t.Errorf("answer %v, %v; want version 1 in slot a instead of version 2", answer, err)
			}
			if states := h.Breakers(); len(states) != 2 || states[1].Version != 2 || states[1].State != breaker.Open {
				t.Errorf("breakers %+v", states)
			}
		})
	}
}

// offers is a mirror that remembers.
type offers struct {
	mu  sync.Mutex
	all []shadow.Offer // guarded by mu
}

func (o *offers) Offer(offer shadow.Offer) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.all = append(o.all, offer)
}

func (o *offers) Summaries(model string) []shadow.Summary {
	return []shadow.Summary{{
		Model: model, PrimaryVersion: 1, ShadowVersion: 2, Offered: 20, Done: 9, Dropped: 7, Failed: 3, Pending: 1, Agreed: 8,
		PrimaryComputeP50: time.Millisecond, PrimaryComputeP99: 2 * time.Millisecond, ShadowComputeP50: 3 * time.Millisecond, ShadowComputeP99: 4 * time.Millisecond,
		Outputs:  []shadow.OutputSummary{{Name: "action", MaxAbsolute: 5, MaxRelative: 6, MinCosine: 0.5, MeanCosine: 0.75, Cosines: 9, ArgmaxAgreement: 0.25, Rows: 9, Agreed: 10, Mismatched: 11}},
		Failures: []string{"no such input"},
	}}
}

// TestAnsweredRequestsAreShown offers what was answered to the shadows that are ready, and nothing else; and how they compare is told.
func TestAnsweredRequestsAreShown(t *testing.T) {
	var o offers
	h := newHouse(t, server.Config{Shadows: &o}, server.Transport{})
	h.divide(&catalog.Traffic{
		Revision: 1, Split: []catalog.Slot{{Name: "a", Version: 1, Weight: 1}},
		Shadow: []catalog.Shadow{{Version: 2, Sample: 1, Tolerance: 0.5, Tolerances: map[string]float64{"value": 0.25}}, {Version: 3, Sample: 1}}, // 3 is loading
	})
	if _, err := h.ask(t, "e"); err != nil {
		t.Fatal(err)
	}
	h.run = func(context.Context, *catalog.Call) error { return errModel }
	if _, err := h.ask(t, "e"); err == nil {
		t.Fatal("the model did not fail")
	}
	h.run = func(ctx context.Context, call *catalog.Call) error { // the shadow goes while its request is answered
		s := houseSnapshot()
		s.Revision, s.Model("policy").Versions[1].State = 3, catalog.Unloading
		h.snapshot.Store(s)
		return runPolicy(ctx, call)
	}
	if _, err := h.ask(t, "e"); err != nil {
		t.Fatal(err)
	}
	if len(o.all) != 1 {
		t.Fatalf("%d offers, want 1", len(o.all))
	}
	got := o.all[0]
	if len(got.Shadows) != 1 || got.Shadows[0].Version.Number != 2 || got.Shadows[0].Shadow.ToleranceOf("action") != 0.5 || got.Shadows[0].Shadow.ToleranceOf("value") != 0.25 || got.Episode != "e" || got.RequestID != "first of e" || got.Slot != "a" || len(got.Primary.Results) != 2 {
		t.Errorf("offer %+v", got)
	}
	summary, err := h.models.GetShadowSummary(t.Context(), &weftv1.GetShadowSummaryRequest{Model: "policy"})
	if err != nil {
		t.Fatal(err)
	}
	want := &weftv1.ShadowSummary{
		Model: "policy", PrimaryVersion: 1, ShadowVersion: 2, Offered: 20, Done: 9, Dropped: 7, Failed: 3, Pending: 1, Agreed: 8,
		PrimaryComputeMsP50: 1, PrimaryComputeMsP99: 2, ShadowComputeMsP50: 3, ShadowComputeMsP99: 4,
		Outputs: []*weftv1.ShadowOutput{{
			Name: "action", MaxAbsolute: 5, MaxRelative: 6, MinCosine: new(0.5), MeanCosine: new(0.75), ArgmaxAgreement: 0.25, Agreed: 10, Mismatched: 11,
		}},
		Failures: []string{"no such input"},
	}
	if diff := cmp.Diff([]*weftv1.ShadowSummary{want}, summary.GetSummaries(), protocmp.Transform()); diff != "" {
		t.Errorf("summary (-want +got):\n%s", diff)
	}
}

// reports remembers what was reported.
type reports struct {
	rollout.Manager
	notKept []rollout.NotKept
	mu      sync.Mutex
	said    []string // guarded by mu
}

func (r *reports) Report(model, episode string, version int64, values map[string]float64) []rollout.NotKept {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.said = append(r.said, fmt.Sprint(model, " ", episode, " ", version, " ", values))
	return r.notKept
}

func (r *reports) Observe(string, int64, rollout.Ending) {}
func (r *reports) Begun(string, int64, time.Time)        {}

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
	h := newHouse(t, server.Config{Rollouts: &said}, server.Transport{})
	if _, err := h.ask(t, "e"); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		req  *weftv1.ReportOutcomeRequest
		code codes.Code
	}{
		"remembered":       {&weftv1.ReportOutcomeRequest{Model: spec("policy", 0), EpisodeId: "e", Reward: new(1.5), Success: new(true)}, codes.OK},
		"named":            {&weftv1.ReportOutcomeRequest{Model: spec("policy", 1), EpisodeId: "f", Metrics: map[string]float64{"falls": 2}}, codes.OK},
		"labelled":         {&weftv1.ReportOutcomeRequest{Model: label("policy", "stable"), EpisodeId: "g", Reward: new(1.0)}, codes.OK},
		"not ready":        {&weftv1.ReportOutcomeRequest{Model: spec("policy", 4), EpisodeId: "h", Reward: new(1.0)}, codes.OK},
		"another label":    {&weftv1.ReportOutcomeRequest{Model: label("policy", "nonesuch"), EpisodeId: "g", Reward: new(1.0)}, codes.NotFound},
		"version zero":     {&weftv1.ReportOutcomeRequest{Model: &weftv1.ModelSpec{Name: "policy", VersionChoice: &weftv1.ModelSpec_Version{}}, EpisodeId: "e", Reward: new(1.0)}, codes.NotFound},
		"no name":          {&weftv1.ReportOutcomeRequest{Model: &weftv1.ModelSpec{}, EpisodeId: "e", Reward: new(1.0)}, codes.InvalidArgument},
		"no model":         {&weftv1.ReportOutcomeRequest{EpisodeId: "e", Reward: new(1.0)}, codes.InvalidArgument},
		"another model":    {&weftv1.ReportOutcomeRequest{Model: spec("nonesuch", 0), EpisodeId: "e", Reward: new(1.0)}, codes.NotFound},
		"another version":  {&weftv1.ReportOutcomeRequest{Model: spec("policy", 9), EpisodeId: "e", Reward: new(1.0)}, codes.NotFound},
		"no episode":       {&weftv1.ReportOutcomeRequest{Model: spec("policy", 0), Reward: new(1.0)}, codes.InvalidArgument},
		"unknown episode":  {&weftv1.ReportOutcomeRequest{Model: spec("policy", 0), EpisodeId: "never", Reward: new(1.0)}, codes.InvalidArgument},
		"no outcome":       {&weftv1.ReportOutcomeRequest{Model: spec("policy", 1), EpisodeId: "f"}, codes.InvalidArgument},
		"a name of ours":   {&weftv1.ReportOutcomeRequest{Model: spec("policy", 1), EpisodeId: "f", Metrics: map[string]float64{"reward": 2}}, codes.InvalidArgument},
		"no finite number": {&weftv1.ReportOutcomeRequest{Model: spec("policy", 1), EpisodeId: "f", Reward: new(math.Inf(1))}, codes.InvalidArgument},
		"too large":        {&weftv1.ReportOutcomeRequest{Model: spec("policy", 1), EpisodeId: "f", Reward: new(1.01e100)}, codes.InvalidArgument},
	} {
		if _, err := h.predict.ReportOutcome(t.Context(), c.req); status.Code(err) != c.code {
			t.Errorf("%s: %v, want %v", name, err, c.code)
		}
	}
	if len(said.said) != 4 {
		t.Errorf("reported %q, want four reports", said.said)
	}
	if slices.Sort(h.outcomes); !slices.Equal(h.outcomes, []string{"policy/1", "policy/1", "policy/2", "policy/4"}) {
		t.Errorf("counted %q", h.outcomes)
	}
}

// TestReportWhatCannotBeKept: who reports a number that can never be kept is told which and why, and nothing of the report counts.
func TestReportWhatCannotBeKept(t *testing.T) {
	var said reports
	h := newHouse(t, server.Config{Rollouts: &said}, server.Transport{})
	for name, c := range map[string]struct {
		req                *weftv1.ReportOutcomeRequest
		field, description string
	}{
		"reward": {&weftv1.ReportOutcomeRequest{Reward: new(-1.01e100)}, "reward", "expected a number from -1e+100 to 1e+100, got -1.01e+100"},
		"metric": {
			&weftv1.ReportOutcomeRequest{Reward: new(1.0), Metrics: map[string]float64{"falls": math.NaN()}}, `metrics["falls"]`,
			"expected a number from -1e+100 to 1e+100, got NaN",
		},
	} {
		c.req.Model, c.req.EpisodeId = spec("policy", 1), "e"
		_, err := h.predict.ReportOutcome(t.Context(), c.req)
		field, description := violation(err)
		if status.Code(err) != codes.InvalidArgument || field != c.field || description != c.description {
			t.Errorf("%s: %v\nfield %q, %q", name, err, field, description)
		}
	}
	edge := &weftv1.ReportOutcomeRequest{Model: spec("policy", 1), EpisodeId: "e", Reward: new(-1e100)}
	if _, err := h.predict.ReportOutcome(t.Context(), edge); err != nil {
		t.Error(err)
	}
	if want := []string{"policy e 1 map[reward:-1e+100]"}; !slices.Equal(said.said, want) {
		t.Errorf("reported %q, want %q", said.said, want)
	}
}

// TestReportThatIsNotKept: what there is no room for is in the answer and is counted.
func TestReportThatIsNotKept(t *testing.T) {
	said := reports{notKept: []rollout.NotKept{
		{Name: "falls", Reason: rollout.TooManyNames, Message: "16 names"},
		{Name: "reward", Reason: rollout.TooManyWaiting, Message: "20000 wait"},
		{Name: "success", Reason: rollout.VersionGone, Message: "gone"},
	}}
	h := newHouse(t, server.Config{Rollouts: &said}, server.Transport{})
	got, err := h.predict.ReportOutcome(t.Context(), &weftv1.ReportOutcomeRequest{Model: spec("policy", 1), EpisodeId: "e", Reward: new(1.0)})
	if err != nil {
		t.Fatal(err)
	}
	want := &weftv1.ReportOutcomeResponse{
		Model: &weftv1.ModelSpec{Name: "policy", VersionChoice: &weftv1.ModelSpec_Version{Version: 1}},
		NotKept: []*weftv1.OutcomeNotKept{
			{Name: "falls", Reason: weftv1.NotKeptReason_NOT_KEPT_REASON_TOO_MANY_NAMES, Message: "16 names"},
			{Name: "reward", Reason: weftv1.NotKeptReason_NOT_KEPT_REASON_TOO_MANY_WAITING, Message: "20000 wait"},
			{Name: "success", Reason: weftv1.NotKeptReason_NOT_KEPT_REASON_VERSION_GONE, Message: "gone"},
		},
	}
	if diff := cmp.Diff(want, got, protocmp.Transform()); diff != "" {
		t.Errorf("answer (-want +got)\n%s", diff)
	}
	counted := []string{"policy/1", "policy/1: too_many_names", "policy/1: too_many_waiting", "policy/1: version_gone"}
	if !slices.Equal(h.outcomes, counted) {
		t.Errorf("counted %q, want %q", h.outcomes, counted)
	}
}
