package weftapi

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/testing/protocmp"
	"google.golang.org/protobuf/types/known/timestamppb"

	weftv1 "github.com/weftserve/weft/proto/gen/weft/v1"
	"github.com/weftserve/weft/server/rollout"
)

// TestRolloutMetricsAreShown as they are, and those of a rollout without an outcome have no history.
func TestRolloutMetricsAreShown(t *testing.T) {
	at := time.Unix(1_700_000_000, 0)
	r := rollout.Rollout{
		Plan: rollout.Plan{Model: "m", Gate: rollout.Gate{Outcome: "success", Margin: 0.1}},
		Report: rollout.Report{
			Verdict: rollout.Promote, At: at, Summary: "well",
			Metrics: []rollout.Metric{
				{
					Name: "outcome", Baseline: new(0.5), Candidate: new(0.6), BaselineCount: 30, CandidateCount: 20,
					Difference: new(0.1), Low: new(-0.05), High: new(0.25), Margin: 0.1, Standing: rollout.NoWorse,
				},
				{Name: "errors", Margin: 0.01, Standing: rollout.Undecided},
				{Name: "latency", Margin: 0.5, High: new(0.3), Standing: rollout.Undecided},
			},
			Split:    rollout.Split{Baseline: 30, Candidate: 20, Expected: 25, ChiSquare: new(2.0), PValue: new(0.157)},
			Excluded: []rollout.Excluded{{Reason: "lost", Candidate: 2}},
		},
		History: rollout.History{
			Points:  []rollout.Point{{At: at, Baseline: 30, Candidate: 20, Difference: 0.1, Low: -0.05, High: 0.25}},
			Moments: []rollout.Moment{{At: at, Candidate: 20, Verdict: rollout.Promote, Step: true, Percent: 10}},
		},
	}
	got := rolloutMessage(&r)
	stamp := timestamppb.New(at)
	if diff := cmp.Diff(&weftv1.GateReport{
		Verdict: weftv1.Verdict_VERDICT_PROMOTE, At: stamp, Summary: "well",
		Metrics: []*weftv1.GateMetric{
			{
				Name: "outcome", Unit: weftv1.MetricUnit_METRIC_UNIT_EPISODE,
				Reference: weftv1.MetricReference_METRIC_REFERENCE_BASELINE, Baseline: new(0.5), Candidate: new(0.6),
				BaselineCount: 30, CandidateCount: 20, Difference: new(0.1), Low: new(-0.05), High: new(0.25),
				AlwaysValid: true, Margin: 0.1, Verdict: weftv1.MetricVerdict_METRIC_VERDICT_NO_WORSE,
			},
			{
				Name: "errors", Unit: weftv1.MetricUnit_METRIC_UNIT_REQUEST,
				Reference: weftv1.MetricReference_METRIC_REFERENCE_BASELINE, AlwaysValid: true, Margin: 0.01,
				Verdict: weftv1.MetricVerdict_METRIC_VERDICT_UNDECIDED,
			},
			{
				Name: "latency", Unit: weftv1.MetricUnit_METRIC_UNIT_REQUEST,
				Reference: weftv1.MetricReference_METRIC_REFERENCE_BASELINE, High: new(0.3), Margin: 0.5,
				AlwaysValid: true, Verdict: weftv1.MetricVerdict_METRIC_VERDICT_UNDECIDED,
			},
		},
		Split: &weftv1.EpisodeSplit{
			Baseline: 30, Candidate: 20, CandidateExpected: 25, ChiSquare: new(2.0), PValue: new(0.157),
		},
		Excluded: []*weftv1.EpisodeExclusion{{Reason: "lost", Candidate: 2}},
	}, got.GetReport(), protocmp.Transform()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(&weftv1.OutcomeHistory{
		Points: []*weftv1.OutcomePoint{{
			At: stamp, BaselineCount: 30, CandidateCount: 20, Difference: 0.1, Low: -0.05, High: 0.25,
		}},
		Moments: []*weftv1.GateMoment{{
			At: stamp, CandidateCount: 20, Verdict: weftv1.Verdict_VERDICT_PROMOTE, Step: true, Percent: 10,
		}},
	}, got.GetHistory(), protocmp.Transform()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	r.Gate.Outcome = ""
	if rolloutMessage(&r).GetHistory() != nil {
		t.Error("a history without an outcome that decides")
	}
}
