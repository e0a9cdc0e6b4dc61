package rollout

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"time"
)

// Verdict is a promotion gate's judgement of a candidate. Its numbers are those of weft.v1.Verdict.
type Verdict uint8

// The verdicts.
const (
	Promote  Verdict = iota + 1 // the evidence suffices and speaks for the candidate
	Hold                        // the evidence does not suffice yet
	Rollback                    // the evidence speaks against it
)

// String returns PROMOTE, HOLD or ROLLBACK.
func (v Verdict) String() string { return [...]string{"UNSPECIFIED", "PROMOTE", "HOLD", "ROLLBACK"}[v] }

// Gate holds the conditions that a candidate must meet to be promoted: the promotion gate of a rollout. It has nothing
// to do with predict.Gate, which limits how many requests are in the server. Zero values are the defaults.
type Gate struct {
	// MinRequests of the candidate must have been answered since the stage began; 0: 100.
	MinRequests int64 `json:"min_requests"`
	// MinEpisodes with an outcome must have been counted of each version; 0: 20, and at least 300 where OutcomeMin and
	// OutcomeMax are not declared. Not looked at without Outcome.
	MinEpisodes int64 `json:"min_episodes"`
	// MaxErrorRate is by how much the part of the candidate's requests that fail with a fault of the model, and the
	// part that takes longer than allowed, may exceed the baseline's; 0: 0.01.
	MaxErrorRate float64 `json:"max_error_rate"`
	// MaxLatencyRatio is how many times the baseline's p95 of compute time the candidate's p95 may be; 0: 1.5.
	MaxLatencyRatio float64 `json:"max_latency_ratio"`
	// MinAgreement is the least part of the shadowed requests that must agree; 0: not looked at.
	MinAgreement float64 `json:"min_agreement"`
	// MaxFailureIncrease is by how much the part of the candidate's requests that fail otherwise, but for lack of
	// capacity or time, may exceed the baseline's; 0: 0.01.
	MaxFailureIncrease float64 `json:"max_failure_increase"`
	// MaxLostIncrease is by how much the part of the candidate's episodes that are lost may exceed the baseline's; 0:
	// 0.05. An episode is lost if it ended, or nothing was heard of it any more, without a report of Outcome. Not
	// looked at without Outcome.
	MaxLostIncrease float64 `json:"max_lost_increase"`
	// Outcome is the name of the outcome that decides; "": outcomes are not looked at.
	Outcome string `json:"outcome"`
	// LowerIsBetter for this outcome, for instance a cost.
	LowerIsBetter bool `json:"lower_is_better"`
	// OutcomeMin and OutcomeMax are the least and the greatest that an outcome can be; others count as these. Nil:
	// they are the range of the first outcomes, with its width as room on either side: an assumption, which takes more
	// episodes.
	OutcomeMin *float64 `json:"outcome_min,omitempty"`
	OutcomeMax *float64 `json:"outcome_max,omitempty"`
	// Margin is by how much the candidate's mean outcome may be worse and still be promoted, in units of the outcome.
	// With 0 only a candidate that is surely better is promoted, and one that is as good is held for ever.
	Margin float64 `json:"margin"`
	// Alpha is the probability of a wrong promotion, and that of a wrong rollback, in the whole rollout, however often
	// the promotion gate looks; 0: 0.05. Each check has all of it for a promotion, which needs every check; k checks
	// share it for a rollback, which needs one. Smaller takes more episodes.
	Alpha float64 `json:"alpha"`
}

// WithDefaults returns the promotion gate with its zero values replaced.
func (g Gate) WithDefaults() Gate {
	g.MinRequests = cmp.Or(g.MinRequests, 100)
	g.MinEpisodes = cmp.Or(g.MinEpisodes, 20)
	g.MaxErrorRate = cmp.Or(g.MaxErrorRate, 0.01)
	g.MaxLatencyRatio = cmp.Or(g.MaxLatencyRatio, 1.5)
	g.MaxFailureIncrease = cmp.Or(g.MaxFailureIncrease, 0.01)
	g.MaxLostIncrease = cmp.Or(g.MaxLostIncrease, 0.05)
	g.Alpha = cmp.Or(g.Alpha, 0.05)
	return g
}

// Check returns a fault of the promotion gate in itself, as a *PlanError.
func (g Gate) Check() error {
	for _, f := range []struct {
		name string
		x    float64
		most float64
	}{
		{"min_requests", float64(g.MinRequests), math.MaxFloat64},
		{"min_episodes", float64(g.MinEpisodes), math.MaxFloat64},
		{"max_error_rate", g.MaxErrorRate, 1},
		{"max_latency_ratio", g.MaxLatencyRatio, math.MaxFloat64},
		{"min_agreement", g.MinAgreement, 1},
		{"max_failure_increase", g.MaxFailureIncrease, 1},
		{"max_lost_increase", g.MaxLostIncrease, 1},
		{"margin", g.Margin, math.MaxFloat64},
		{"alpha", g.Alpha, 0.99},
	} {
		// Asked so that NaN is refused as well, which is neither less nor more than anything.
		if want := fmt.Sprintf("a number from 0 to %v", f.most); !(f.x >= 0 && f.x <= f.most) {
			if f.most == math.MaxFloat64 {
				want = "a number of at least 0"
			}
			return &PlanError{"gate." + f.name, want, fmt.Sprint(f.x)}
		}
	}
	switch {
	case (g.OutcomeMin == nil) != (g.OutcomeMax == nil):
		return &PlanError{"gate.outcome_max", "outcome_min and outcome_max, or neither", "one of them"}
	case g.OutcomeMin != nil && !(*g.OutcomeMin < *g.OutcomeMax && *g.OutcomeMax-*g.OutcomeMin <= math.MaxFloat64):
		return &PlanError{
			"gate.outcome_max", fmt.Sprintf("a number above outcome_min, %v", *g.OutcomeMin), fmt.Sprint(*g.OutcomeMax),
		}
	case g.Outcome == "" && (g.LowerIsBetter || g.Margin > 0 || g.OutcomeMin != nil):
		return &PlanError{
			"gate.outcome", "the name of the outcome that lower_is_better, margin and outcome_min are about", "none",
		}
	}
	return nil
}

// GateCheck is one thing that a promotion gate looked at.
type GateCheck struct {
	Name    string  `json:"name"` // requests, errors, latency, agreement, episodes, outcome, lost or failures
	Verdict Verdict `json:"verdict"`
	Reason  string  `json:"reason"` // one sentence with the numbers
}

// Report is a promotion gate's verdict with its reasons. It is immutable.
type Report struct {
	Verdict Verdict     `json:"verdict"`
	Checks  []GateCheck `json:"checks"`
	// Codes are how the requests of this stage ended, ascending by name.
	Codes []CodeCount `json:"codes,omitempty"`
	// BaselineEpisodes and CandidateEpisodes are since the rollout began; zero without an outcome that decides.
	BaselineEpisodes  Episodes  `json:"baseline_episodes,omitzero"`
	CandidateEpisodes Episodes  `json:"candidate_episodes,omitzero"`
	At                time.Time `json:"at"` // set by the Manager; Judge knows no time
	// Metrics are the numbers of those checks that compare something. Reports of earlier releases have none.
	Metrics []Metric `json:"metrics,omitempty"`
	// Summary is one sentence for people. Set by the Manager, as it names the candidate.
	Summary string `json:"summary,omitempty"`
	// Split and Excluded are of the evidence.
	Split    Split      `json:"split,omitzero"`
	Excluded []Excluded `json:"excluded,omitempty"`
}

// Metric returns the metric of a check, nil if there is none.
func (r *Report) Metric(name string) *Metric {
	if i := slices.IndexFunc(r.Metrics, func(m Metric) bool { return m.Name == name }); i >= 0 {
		return &r.Metrics[i]
	}
	return nil
}

// CodeCount is how many requests ended with one gRPC code.
type CodeCount struct {
	Code      string `json:"code"`
	Baseline  int64  `json:"baseline"`
	Candidate int64  `json:"candidate"`
}

// Judge weighs evidence. It is a pure function. Any check that says Rollback makes the verdict Rollback; else all must
// say Promote for Promote; else it is Hold. Zero values of the promotion gate are its defaults.
func Judge(g Gate, e *Evidence) Report {
	g = g.WithDefaults()
	report := Report{Checks: []GateCheck{checkRequests(g, e)}, Codes: codeCounts(e), Verdict: Promote}
	if g.Outcome != "" {
		report.Checks = append(report.Checks, checkEpisodes(g, e))
		report.BaselineEpisodes, report.CandidateEpisodes = e.Fates[baseline], e.Fates[candidate]
		report.Split, report.Excluded = e.Split.split(), e.excluded()
	}
	all := g.comparisons(e)
	for i := range all {
		c, m := all[i].judge(len(all))
		if c.Verdict == Hold && slices.Contains(e.Passed, c.Name) {
			c.Verdict = Promote
			c.Reason += "; this was decided before the candidate got all traffic"
		}
		m.stand(c.Verdict)
		report.Checks, report.Metrics = append(report.Checks, c), append(report.Metrics, m)
	}
	for _, c := range report.Checks {
		// The verdicts are ordered by how much they protect.
		report.Verdict = max(report.Verdict, c.Verdict)
	}
	return report
}
