package rollout

import (
	"fmt"
	"slices"
	"time"

	"github.com/weftserve/weft/runtime/catalog"
)

// run is a rollout and what it goes by. Manager.mu guards it; it is written with Manager.changing held too, save the strata's moments.
type run struct {
	Rollout
	// revision is that of the traffic that the rollout set last.
	revision uint64
	strata   []*stratum
	// waiting are outcomes that do not count yet, because episodes that began before theirs are running.
	waiting []waiting
	// baseline and candidate count this stage's requests.
	baseline, candidate *counter
	// earlier is the baseline's sample of the stages before, if there were requests enough.
	earlier []time.Duration
	// agreed and shadowed are what was counted before the rollout began.
	agreed, shadowed int64
	// refusal is the error that the log has last, so that it has each only once.
	refusal string
}

// waiting is an outcome that is to count into moments.
type waiting struct {
	sample  *sample
	began   time.Time
	moments *Moments
}

// longest is how long an outcome waits at most for episodes that began before its own.
const longest = 10 * time.Minute

// settle counts outcomes of episodes that began before oldest, all of them if there is no oldest.
func (r *run) settle(oldest time.Time, running bool, now time.Time) {
	kept := r.waiting[:0]
	for _, w := range r.waiting {
		if running && !w.began.Before(oldest) && now.Sub(w.began) < longest {
			kept = append(kept, w)
		} else {
			w.sample.count(w.moments)
		}
	}
	clear(r.waiting[len(kept):])
	r.waiting = kept
}

// stratum is a stage in which both versions get episodes.
type stratum struct {
	Stratum
	since, until time.Time // until is zero while it lasts
}

// moments returns where an outcome of an episode counts, nil if nowhere. r may be nil.
func (r *run) moments(number int64, name string, began time.Time) *Moments {
	if r == nil || r.State != Running || name != r.Gate.Outcome {
		return nil
	}
	for _, s := range slices.Backward(r.strata) {
		if began.Before(s.since) {
			continue
		}
		switch {
		case !s.until.IsZero() && !began.Before(s.until):
			return nil
		case number == r.BaselineVersion:
			return &s.Baseline
		case number == r.CandidateVersion:
			return &s.Candidate
		}
		return nil
	}
	return nil
}

// enter begins a stage. With all traffic at the candidate there is nothing to compare with: what comes of the baseline then are the
// longest of its episodes, so that the outcomes stay as they were.
func (r *run) enter(stage int, now time.Time) {
	if r.baseline != nil {
		if sample := r.baseline.requests().Compute; int64(len(sample)) >= min(r.Gate.MinRequests, sampleSize) {
			r.earlier = sample
		}
	}
	r.Stage, r.StageSince = stage, now
	r.baseline, r.candidate = &counter{}, &counter{}
	if n := len(r.strata); n > 0 && r.strata[n-1].until.IsZero() {
		r.strata[n-1].until = now
	}
	if r.Stages[stage] < 100 {
		r.strata = append(r.strata, &stratum{since: now})
	}
}

// evidence returns what the gate judges by, given the present counts of agreement.
func (r *run) evidence(agreed, shadowed int64) Evidence {
	e := Evidence{Baseline: r.baseline.requests(), Candidate: r.candidate.requests()}
	if int64(len(e.Baseline.Compute)) < min(r.Gate.MinRequests, sampleSize) && r.earlier != nil {
		e.Baseline.Compute, e.Baseline.Earlier = r.earlier, true
	}
	if shadowed < r.shadowed || agreed < r.agreed {
		r.agreed, r.shadowed = 0, 0 // The counts began anew.
	}
	e.Agreed, e.Shadowed = agreed-r.agreed, shadowed-r.shadowed
	for _, s := range r.strata {
		e.Strata = append(e.Strata, s.Stratum)
	}
	return e
}

// traffic returns the split that gives the candidate percent of the new episodes. The baseline stays in it while the rollout runs.
func (r *run) traffic(percent float64, end bool, before *catalog.Traffic) *catalog.Traffic {
	t := &catalog.Traffic{Source: "rollout"}
	if before != nil {
		t.Shadow = slices.Clone(before.Shadow)
	}
	if !end || percent < 100 {
		t.Split = append(t.Split, catalog.Slot{Name: "baseline", Version: r.BaselineVersion, Weight: 100 - percent})
	}
	if !end || percent > 0 {
		t.Split = append(t.Split, catalog.Slot{Name: "candidate", Version: r.CandidateVersion, Weight: percent})
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

// gone reports whether a version stopped taking requests for good. One that is loaded anew may come back.
func gone(m *catalog.Model, number int64) bool {
	v := m.Version(number)
	return v == nil || v.State == catalog.Failed || v.State == catalog.Unloading
}
