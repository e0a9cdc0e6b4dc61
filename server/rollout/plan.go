package rollout

import (
	"fmt"
	"slices"
	"strconv"
	"time"
)

// Plan says how to lead a candidate through stages of growing traffic.
type Plan struct {
	Model            string `json:"model"`
	BaselineVersion  int64  `json:"baseline_version"`
	CandidateVersion int64  `json:"candidate_version"`
	// Stages are the parts of the traffic that the candidate gets, in percent, ascending, from below 100 up to 100.
	// Empty: 1, 10, 50, 100.
	Stages []float64 `json:"stages"`
	// Automatic follows the gate without a call. Else only Advance and Abort move it.
	Automatic bool `json:"automatic"`
	// StageDuration is how long a stage lasts at least before the gate may end it; a Rollback does not wait for it. 0:
	// 30 s.
	StageDuration time.Duration `json:"-"`
	// MaxDuration is how long the rollout lasts at most, if it is Automatic: then the baseline has all traffic again. 0:
	// 7 days.
	MaxDuration time.Duration `json:"-"`
	Gate        Gate          `json:"gate"`
}

const defaultMaxDuration = 7 * 24 * time.Hour

// maxStages bounds a plan, and with it the steps of a rollout.
const maxStages = 100

// withDefaults returns a copy of the plan with its zero values replaced.
func (p Plan) withDefaults() Plan {
	p.Stages = slices.Clone(p.Stages)
	if len(p.Stages) == 0 {
		p.Stages = []float64{1, 10, 50, 100}
	}
	if p.StageDuration == 0 {
		p.StageDuration = 30 * time.Second
	}
	if p.MaxDuration == 0 {
		p.MaxDuration = defaultMaxDuration
	}
	p.Gate = p.Gate.WithDefaults()
	return p
}

// Check returns a fault of the plan in itself, as a *PlanError; whether its versions are there is another matter.
func (p Plan) Check() error {
	switch {
	case p.Model == "":
		return &PlanError{"model", "the name of a model", "none"}
	case p.BaselineVersion < 1:
		return &PlanError{"baseline_version", "a positive number", strconv.FormatInt(p.BaselineVersion, 10)}
	case p.CandidateVersion < 1:
		return &PlanError{"candidate_version", "a positive number", strconv.FormatInt(p.CandidateVersion, 10)}
	case p.BaselineVersion == p.CandidateVersion:
		return &PlanError{
			"candidate_version", "another version than the baseline",
			fmt.Sprintf("%d again", p.CandidateVersion),
		}
	case p.StageDuration < 0:
		return &PlanError{"stage_duration", "a duration of at least 0", p.StageDuration.String()}
	case p.MaxDuration < 0:
		return &PlanError{"max_duration", "a duration of at least 0", p.MaxDuration.String()}
	case len(p.Stages) > maxStages:
		return &PlanError{"stages", fmt.Sprintf("at most %d", maxStages), strconv.Itoa(len(p.Stages))}
	}
	for i, percent := range p.Stages {
		field := fmt.Sprintf("stages[%d]", i)
		switch {
		case !(percent > 0 && percent <= 100):
			return &PlanError{field, "percent above 0 up to 100", fmt.Sprint(percent)}
		case i > 0 && percent <= p.Stages[i-1]:
			return &PlanError{field, fmt.Sprintf("more than the stage before, %v", p.Stages[i-1]), fmt.Sprint(percent)}
		}
	}
	if n := len(p.Stages); n > 0 && p.Stages[n-1] != 100 {
		return &PlanError{fmt.Sprintf("stages[%d]", n-1), "100 in the last stage", fmt.Sprint(p.Stages[n-1])}
	}
	if len(p.Stages) == 1 {
		return &PlanError{
			"stages",
			"a stage below 100 first, in which both versions can be compared; SetTraffic moves everything at once",
			"only 100",
		}
	}
	return p.Gate.Check()
}
