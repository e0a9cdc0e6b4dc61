package rollout

import "math"

// Metric is a quantity that one check compares: the numbers behind its verdict, for people and pictures. Difference,
// bounds and margin are on one scale, on which more is better for the candidate; weft.v1.GateMetric says which. A
// number that does not exist, or is not finite, is nil.
type Metric struct {
	Name           string   `json:"name"` // the check's
	Baseline       *float64 `json:"baseline,omitempty"`
	Candidate      *float64 `json:"candidate,omitempty"`
	BaselineCount  int64    `json:"baseline_count"`
	CandidateCount int64    `json:"candidate_count"`
	Difference     *float64 `json:"difference,omitempty"`
	Low            *float64 `json:"low,omitempty"`
	High           *float64 `json:"high,omitempty"`
	Margin         float64  `json:"margin"`
	Standing       Standing `json:"standing"`
}

// Standing is where a metric's interval lies, by its name in weft.v1.MetricVerdict.
type Standing string

// The standings.
const (
	Better    Standing = "BETTER"    // wholly right of 0
	NoWorse   Standing = "NO_WORSE"  // wholly right of -margin, or the check says Promote
	Worse     Standing = "WORSE"     // the check says Rollback: wholly left of -margin, through the candidate
	Undecided Standing = "UNDECIDED" // none of these yet
)

// OfEpisodes reports whether the metric counts episodes. Others count them, and requests without one.
func (m *Metric) OfEpisodes() bool { return m.Name == "outcome" || m.Name == "lost" }

// AgainstLimit reports whether the candidate is compared with a fixed limit instead of the baseline.
func (m *Metric) AgainstLimit() bool { return m.Name == "agreement" }

// stand decides the standing from the check's verdict and the interval. The verdict goes first where it is Rollback: it
// takes in more than the interval does.
func (m *Metric) stand(check Verdict) {
	switch {
	case check == Rollback:
		m.Standing = Worse
	case m.Low != nil && *m.Low > 0:
		m.Standing = Better
	case m.Low != nil && *m.Low > -m.Margin, check == Promote:
		m.Standing = NoWorse
	default:
		m.Standing = Undecided
	}
}

// known returns a number that can be written down, nil of others.
func known(x float64) *float64 {
	if math.IsNaN(x) || math.IsInf(x, 0) {
		return nil
	}
	return new(x + 0) // no -0
}
