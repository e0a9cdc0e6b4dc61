package rollout

import (
	"fmt"
	"math"
	"slices"
	"sync/atomic"
	"time"

	"github.com/weftserve/weft/runtime/catalog"
)

// run is a rollout and its evidence. Manager.mu guards it; it is written with Manager.changing held too, save the
// evidence.
type run struct {
	Rollout
	// revision is that of the traffic that the rollout set last.
	revision uint64
	evidence Evidence
	stages   []stage             // that began in this process, the latest last
	episodes map[uint64]*episode // by id
	waiting  []*episode          // that are not counted yet
	drawn    map[uint32]bool     // what Evidence.Drawn lists
	patience time.Duration       // how long an episode that goes on holds up others
	keptAt   time.Time           // when the evidence was kept last
	fresh    atomic.Bool         // something was heard since
	// refusal is the error that the log has last, so that it has each only once.
	refusal string
}

// stage is a span in which the candidate got a part of the units. An episode is compared by the part of the span in
// which it began.
type stage struct {
	since, until time.Time // until is zero while it lasts
	part         float64
}

// newRun returns a run of a rollout that begins, or goes on with what was kept.
func newRun(r Rollout, revision uint64, e Evidence) *run {
	if g := &r.Gate; g.OutcomeMin != nil && g.OutcomeMax != nil {
		e.Range = Range{Low: *g.OutcomeMin, High: *g.OutcomeMax, Declared: true}
	}
	e.ask(&r.Gate)
	n := &run{
		Rollout: r, revision: revision, evidence: e, patience: minPatience, episodes: map[uint64]*episode{},
		drawn: map[uint32]bool{},
	}
	for _, draw := range e.Drawn {
		n.drawn[draw] = true
	}
	return n
}

// partAt returns which part of the units the candidate got at a time, and whether the rollout ran then.
func (r *run) partAt(at time.Time) (part float64, in bool) {
	// The latest first: most episodes began a moment ago.
	for _, s := range slices.Backward(r.stages) {
		if !at.Before(s.since) {
			return s.part, s.until.IsZero() || at.Before(s.until)
		}
	}
	return 0, false
}

// judged asks the promotion gate about the evidence that there is. The caller holds mu, or is the only one that knows
// the run.
func (r *run) judged(at time.Time) Report {
	report := Judge(r.Gate, &r.evidence)
	// Of what a stage still needs only requests come at a pace that is known.
	if n := r.evidence.Requests.Answered[candidate]; n > 0 && n < r.Gate.MinRequests {
		left := float64(r.Gate.MinRequests-n) / float64(n) * at.Sub(r.StageSince).Seconds()
		pace := fmt.Sprintf(", at this pace in about %v", time.Duration(min(math.Round(left), math.MaxInt32))*time.Second)
		for i := range report.Checks {
			if c := &report.Checks[i]; c.Name == "requests" {
				c.Reason += pace
			}
		}
	}
	report.At, report.Summary = at, report.summarize(&r.Plan)
	return report
}

// enter begins a stage. Requests are counted anew; all other evidence goes on. The caller holds mu, or is the only one
// that knows the run.
func (r *run) enter(number int, now time.Time) {
	r.Stage, r.StageSince = number, now
	r.evidence.Requests = Requests{}
	r.pass(&r.Report)
	r.span(now)
}

// pass notes which checks said Promote before the candidate got all traffic, if it has. What still comes from before is
// to hold nothing then. The first such report counts: a later one is of the last stage.
func (r *run) pass(by *Report) {
	if r.Stages[r.Stage] < 100 || r.evidence.Passed != nil {
		return
	}
	for _, c := range by.Checks {
		if c.Verdict == Promote {
			r.evidence.Passed = append(r.evidence.Passed, c.Name)
		}
	}
}

// place returns how bad an outcome is, from 0 to 1.
func (r *run) place(outcome float64) float64 {
	place := r.evidence.Range.place(outcome)
	if !r.Gate.LowerIsBetter {
		place = 1 - place
	}
	return place
}

// pause ends the span of the stage, and resume goes on with it: between them nothing is known of where units are led.
// The caller holds mu.
func (r *run) pause(now time.Time) { r.stages[len(r.stages)-1].until = now }
func (r *run) resume()             { r.stages[len(r.stages)-1].until = time.Time{} }

// span begins that of the stage.
func (r *run) span(now time.Time) {
	r.stages = append(r.stages, stage{since: now, part: r.Stages[r.Stage] / 100})
}

// traffic returns the split that gives the candidate percent of the new episodes. The baseline stays in it while the
// rollout runs. At its end nobody is a candidate any more: who has all traffic has the usual slot.
func (r *run) traffic(percent float64, end bool, m *catalog.Model) *catalog.Traffic {
	t := &catalog.Traffic{Source: "rollout"}
	if m != nil && m.Traffic != nil {
		t.Shadow = slices.Clone(m.Traffic.Shadow)
	}
	if end {
		all := r.BaselineVersion
		if percent == 100 {
			all = r.CandidateVersion
		}
		t.Split = []catalog.Slot{{Name: catalog.DefaultSlot, Version: all, Weight: 100}}
		return t
	}
	t.Split = []catalog.Slot{
		{Name: "baseline", Version: r.BaselineVersion, Weight: 100 - percent},
		{Name: "candidate", Version: r.CandidateVersion, Weight: percent},
	}
	return t
}

// broken returns why the rollout cannot go on, "" if it can: a version of it is gone, or somebody else has changed the
// traffic since the rollout did, which its revision tells.
func (r *run) broken(s *catalog.Snapshot) string {
	m := s.Model(r.Model)
	switch {
	case m == nil:
		return "the model is gone"
	case m.Traffic.Revision != r.revision:
		return fmt.Sprintf("the traffic was changed by somebody else: it is revision %d by %q, the rollout's was %d",
			m.Traffic.Revision, m.Traffic.Source, r.revision)
	}
	if gone(m, r.CandidateVersion) {
		return fmt.Sprintf("the candidate, version %d, is gone", r.CandidateVersion)
	}
	if gone(m, r.BaselineVersion) {
		return fmt.Sprintf("the baseline, version %d, is gone", r.BaselineVersion)
	}
	return ""
}

// gone reports whether a version has stopped taking requests for good. One that is loaded again may come back.
func gone(m *catalog.Model, number int64) bool {
	v := m.Version(number)
	return v == nil || v.State == catalog.Failed || v.State == catalog.Unloading
}
