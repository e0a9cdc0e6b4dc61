package rollout

import (
	"cmp"
	"fmt"
	"slices"
	"time"
)

// Plan says how to lead a candidate through stages of growing traffic, and by which promotion gate.
type Plan struct {
	Model            string `json:"model"`
	BaselineVersion  int64  `json:"baseline_version"`
	CandidateVersion int64  `json:"candidate_version"`
	// Stages are the parts of the traffic that the candidate gets, in percent, ascending, from below 100 up to 100.
	// Empty: 1, 10, 50, 100.
	Stages []float64 `json:"stages"`
	// Automatic follows the promotion gate without a call. Else only Advance and Abort move it.
	Automatic bool `json:"automatic"`
	// StageDuration is how long a stage lasts at least before the promotion gate may end it; a Rollback does not wait for
	// it. 0: 30 s.
	StageDuration time.Duration `json:"-"`
	// MaxDuration is how long the rollout lasts at most, if it is Automatic: then the baseline has all traffic again. 0:
	// 7 days.
	MaxDuration time.Duration `json:"-"`
	Gate        Gate          `json:"gate"`
}

// maxStages bounds a plan, and with it the steps of a rollout.
const maxStages = 100

// withDefaults returns a copy of the plan with its zero values replaced.
func (p Plan) withDefaults() Plan {
	p.Stages = slices.Clone(p.Stages)
	if len(p.Stages) == 0 {
		p.Stages = []float64{1, 10, 50, 100}
	}
	p.StageDuration = cmp.Or(p.StageDuration, 30*time.Second)
	p.MaxDuration = cmp.Or(p.MaxDuration, 7*24*time.Hour)
	p.Gate = p.Gate.WithDefaults()
	return p
}

// Check returns a fault of the plan in itself, as a *PlanError; whether its versions are there is another matter.
func (p Plan) Check() error {
	for _, f := range []struct {
		wrong       bool
		field, want string
		got         any
	}{
		{p.Model == "", "model", "the name of a model", "none"},
		{p.BaselineVersion < 1, "baseline_version", "a positive number", p.BaselineVersion},
		{p.CandidateVersion < 1, "candidate_version", "a positive number", p.CandidateVersion},
		{
			p.BaselineVersion == p.CandidateVersion, "candidate_version", "another version than the baseline",
			fmt.Sprintf("%d again", p.CandidateVersion),
		},
		{p.StageDuration < 0, "stage_duration", "a duration of at least 0", p.StageDuration},
		{p.MaxDuration < 0, "max_duration", "a duration of at least 0", p.MaxDuration},
		{len(p.Stages) > maxStages, "stages", fmt.Sprintf("at most %d", maxStages), len(p.Stages)},
		{
			len(p.Stages) == 1 && p.Stages[0] == 100, "stages",
			"a stage below 100 first, in which both versions can be compared; SetTraffic moves everything at once",
			"only 100",
		},
	} {
		if f.wrong {
			return &PlanError{f.field, f.want, fmt.Sprint(f.got)}
		}
	}
	for i, percent := range p.Stages {
		field := fmt.Sprintf("stages[%d]", i)
		switch {
		// Asked so that NaN is refused as well.
		case !(percent > 0 && percent <= 100):
			return &PlanError{field, "percent above 0 up to 100", fmt.Sprint(percent)}
		case i > 0 && percent <= p.Stages[i-1]:
			return &PlanError{field, fmt.Sprintf("more than the stage before, %v", p.Stages[i-1]), fmt.Sprint(percent)}
		}
	}
	if n := len(p.Stages); n > 0 && p.Stages[n-1] != 100 {
		return &PlanError{fmt.Sprintf("stages[%d]", n-1), "100 in the last stage", fmt.Sprint(p.Stages[n-1])}
	}
	return p.Gate.Check()
}
