package weftapi

import (
	"testing"
	"time"

	"github.com/weftserve/weft/server/rollout"
	"github.com/weftserve/weft/server/servertest/script"
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
	script.Compare(t, "testdata/rollout.txt", map[string]string{"rollout": script.JSON(got)})
	r.Gate.Outcome = ""
	if rolloutMessage(&r).GetHistory() != nil {
		t.Error("a history without an outcome that decides")
	}
}
