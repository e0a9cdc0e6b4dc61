package rollout

import (
	"strings"
	"testing"
)

func TestSummary(t *testing.T) {
	p := &Plan{CandidateVersion: 8, Gate: Gate{Outcome: "success"}}
	r := Report{Metrics: []Metric{
		{Name: "latency", Standing: Better, BaselineCount: 9},
		{Name: "outcome", Standing: NoWorse, BaselineCount: 3000, CandidateCount: 1000},
	}}
	if got := r.summarize(p); got != "v8 is no worse on success, better on latency; 4,000 episodes" {
		t.Error(got)
	}
	r.Metrics = append(r.Metrics, Metric{Name: "errors", Standing: Worse}, Metric{Name: "lost", Standing: Worse},
		Metric{Name: "failures", Standing: Worse}, Metric{Name: "agreement", Standing: Undecided})
	r.Split = Split{Candidate: 100, Expected: 1234.4, Mismatch: true}
	if got := r.summarize(p); got != "v8 is worse on errors, lost episodes and failures, no worse on success, better on "+
		"latency, undecided on agreement; 4,000 episodes; these numbers mean little, since 100 of the episodes went to it "+
		"where 1,234 were expected" {
		t.Error(got)
	}
	if got := (&Report{Metrics: []Metric{{Name: "failures", Standing: NoWorse, CandidateCount: 1_234_567}}}).
		summarize(&Plan{CandidateVersion: 2}); !strings.HasSuffix(got, "; 1,234,567 requests") {
		t.Error(got)
	}
}
