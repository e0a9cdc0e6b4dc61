package rollout

import (
	"fmt"
	"slices"
	"time"

	"github.com/weftserve/weft/runtime/catalog"
)

// run is a rollout and its evidence. Manager.mu guards it; it is written with Manager.changing held too, save the
// strata's moments.
type run struct {
	Rollout
	// revision is that of the traffic that the rollout set last.
	revision uint64
	strata   []*stratum
	// waiting holds outcomes that do not count yet, because episodes that began before theirs are running.
	waiting []waiting
	// baseline and candidate count this stage's requests.
	baseline, candidate *counter
	// earlier is the baseline's sample of the stages before, if there were requests enough, and earlierEnded how its
	// requests ended there.
	earlier      []time.Duration
	earlierEnded Requests
	// agreed and shadowed are the counts from before the rollout began.
	agreed, shadowed int64
	// refusal is the error that the log has last, so that it has each only once.
	refusal string
	// thinning is that of the History. outside and noRoom count reported episodes that began when not both versions got
	// some, and that there was no room for; repeated counts outcomes that a later report of the same episode replaced.
	thinning                  thinning
	outside, noRoom, repeated [2]int64
}

// stratum is a stage in which both versions get episodes.
type stratum struct {
	Stratum
	since, until time.Time // until is zero while it lasts
	part         float64   // of the episodes, for the candidate
	episodes     [2]fates
}

// The versions of a rollout, where numbers of both stand side by side.
const (
	baseline = iota
	candidate
)

// stratum returns the stage in which an episode began, nil if it is in none, and which version's it is. r may be nil.
func (r *run) stratum(number int64, began time.Time) (s *stratum, side int) {
	side, is := r.side(number)
	if !is {
		return nil, 0
	}
	for _, s := range slices.Backward(r.strata) {
		switch {
		case began.Before(s.since):
			continue
		case !s.until.IsZero() && !began.Before(s.until):
			return nil, 0
		}
		return s, side
	}
	return nil, 0
}

// side returns which version of a running rollout a number is. r may be nil.
func (r *run) side(number int64) (side int, is bool) {
	switch {
	case r == nil || r.State != Running:
	case number == r.CandidateVersion:
		return candidate, true
	case number == r.BaselineVersion:
		return baseline, true
	}
	return 0, false
}

// moments returns where an outcome of an episode counts.
func (s *stratum) moments(side int) *Moments {
	if side == candidate {
		return &s.Candidate
	}
	return &s.Baseline
}

// enter begins a stage. With all traffic at the candidate no stratum begins, because there is nothing to compare with:
// the baseline's outcomes that still come are of its longest episodes.
func (r *run) enter(stage int, now time.Time) {
	if r.baseline != nil {
		before := r.baseline.requests()
		if int64(len(before.Compute)) >= min(r.Gate.MinRequests, sampleSize) {
			r.earlier = before.Compute
		}
		if before.Asked >= r.Gate.MinRequests {
			r.earlierEnded = before
		}
	}
	r.Stage, r.StageSince = stage, now
	r.baseline, r.candidate = &counter{}, &counter{}
	if n := len(r.strata); n > 0 && r.strata[n-1].until.IsZero() {
		r.strata[n-1].until = now
	}
	if r.Stages[stage] < 100 {
		r.strata = append(r.strata, &stratum{since: now, part: r.Stages[stage] / 100})
	}
}

// evidence returns the evidence for the gate, given the present counts of agreement.
func (r *run) evidence(agreed, shadowed int64) Evidence {
	e := Evidence{Baseline: r.baseline.requests(), Candidate: r.candidate.requests()}
	if int64(len(e.Baseline.Compute)) < min(r.Gate.MinRequests, sampleSize) && r.earlier != nil {
		e.Baseline.Compute, e.Baseline.Earlier = r.earlier, true
	}
	if e.Baseline.Asked < r.Gate.MinRequests && r.earlierEnded.Asked > 0 {
		before := &r.earlierEnded
		e.Baseline.Asked, e.Baseline.Failed, e.Baseline.Overload, e.Baseline.Codes = before.Asked, before.Failed,
			before.Overload, before.Codes
		e.Apart = "the baseline's requests are of an earlier stage"
	}
	if shadowed < r.shadowed || agreed < r.agreed {
		r.agreed, r.shadowed = 0, 0 // The counts began again at 0.
	}
	e.Agreed, e.Shadowed = agreed-r.agreed, shadowed-r.shadowed
	for _, s := range r.strata {
		e.Strata = append(e.Strata, s.Stratum)
	}
	if r.Gate.Outcome != "" {
		r.tellEpisodes(&e)
		r.tellExcluded(&e)
	}
	return e
}

// traffic returns the split that gives the candidate percent of the new episodes. The baseline stays in it while the
// rollout runs. At its end nobody is a candidate any more: who has all traffic has the usual slot.
func (r *run) traffic(percent float64, end bool, before *catalog.Traffic) *catalog.Traffic {
	t := &catalog.Traffic{Source: "rollout"}
	if before != nil {
		t.Shadow = slices.Clone(before.Shadow)
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

// broken returns why the rollout cannot go on, "" if it can.
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
