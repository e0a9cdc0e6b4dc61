package rollout

import (
	"slices"
	"time"
)

// State is where a rollout stands. Its numbers are those of weft.v1.RolloutState.
type State uint8

// The states. All but Running are final.
const (
	Running    State = iota + 1
	Promoted         // the candidate has all traffic
	RolledBack       // the baseline has all traffic again, because the gate said so
	Aborted          // a caller stopped it, or one of its conditions changed; the last step says which
	Expired          // the baseline has all traffic again, because Plan.MaxDuration was over without a verdict
)

// String returns RUNNING, PROMOTED, ROLLED_BACK, ABORTED or UNDECIDED.
func (s State) String() string {
	return [...]string{"UNSPECIFIED", "RUNNING", "PROMOTED", "ROLLED_BACK", "ABORTED", "UNDECIDED"}[s]
}

// Rollout is a plan and how far it has come.
type Rollout struct {
	Plan
	State      State     `json:"state"`
	Since      time.Time `json:"since"` // when it began
	Stage      int       `json:"stage"` // index in Stages
	StageSince time.Time `json:"stage_since"`
	Report     Report    `json:"-"`     // the gate's latest
	Steps      []Step    `json:"steps"` // the oldest first; one for each stage entered and one for the end
	History    History   `json:"history,omitzero"`
}

// Step is one change of a rollout. Its report is that of the promotion gate at that time, also where a person decided.
type Step struct {
	At      time.Time `json:"at"`
	Percent float64   `json:"percent"` // of the candidate afterwards, as far as the rollout knows
	State   State     `json:"state"`
	// By is who decided: the address of a caller, "gate" for the promotion gate, or "weft" for the server itself.
	By     string `json:"by"`
	Reason string `json:"reason"` // one sentence
	Report Report `json:"report"` // the evidence for it
}

// clone returns a copy that shares nothing that changes.
func (r *Rollout) clone() Rollout {
	c := *r
	c.Stages = slices.Clone(r.Stages)
	c.Steps = slices.Clone(r.Steps)
	c.History = History{slices.Clone(r.History.Points), slices.Clone(r.History.Moments)}
	return c
}
