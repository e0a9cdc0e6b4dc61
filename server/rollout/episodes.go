package rollout

import (
	"slices"
	"time"
)

// Unfinished episodes hold up the outcomes of episodes that began later. Too few of them, or too old ones, hold up
// nothing.
const (
	// maxUnfinished is the part of a version's episodes, of those that began before an outcome's, that may be
	// unfinished when it counts.
	maxUnfinished = 0.05
	// longest is how long after its beginning an unfinished episode holds up others.
	longest = 10 * time.Minute
)

// fates counts, by their fate, the episodes of one version that began in one stratum.
type fates struct {
	begun      int64
	reported   int64
	seen       int64 // of begun, before it was asked which are unfinished
	unfinished int64
}

// all is how many began: an episode that begins during a look is among the unfinished, if not among those seen.
func (f *fates) all() int64 { return max(f.seen, f.reported+f.unfinished) }

// lost is how many are neither reported nor unfinished.
func (f *fates) lost() int64 { return f.all() - f.reported - f.unfinished }

// waiting is an outcome that is to count into moments.
type waiting struct {
	sample  *sample
	moments *Moments
	side    int
}

// look takes in which episodes are unfinished, by version, and counts the outcomes that need not wait for them.
func (r *run) look(unfinished map[int64][]time.Time, now time.Time) {
	var holding [2][]time.Time
	for _, s := range r.strata {
		for side := range s.episodes {
			s.episodes[side].unfinished = 0
		}
	}
	for number, began := range unfinished {
		for _, at := range began {
			s, side := r.stratum(number, at)
			if s == nil {
				continue
			}
			s.episodes[side].unfinished++
			if now.Sub(at) < longest {
				holding[side] = append(holding[side], at)
			}
		}
	}
	r.settle(holding)
}

// settle counts the outcomes of the episodes that began before the last moment before which few enough of either
// version's are in holding.
func (r *run) settle(holding [2][]time.Time) {
	finished := [2]int64{}
	for _, s := range r.strata {
		finished[baseline] += s.Baseline.Count
		finished[candidate] += s.Candidate.Count
	}
	for _, w := range r.waiting {
		finished[w.side]++
	}
	for _, began := range holding {
		slices.SortFunc(began, time.Time.Compare)
	}
	slices.SortStableFunc(r.waiting, func(a, b waiting) int { return a.sample.began.Compare(b.sample.began) })
	few := func(side int, until time.Time) bool {
		// those that began then are among them
		unfinished, _ := slices.BinarySearchFunc(holding[side], until.Add(1), time.Time.Compare)
		return float64(unfinished) <= maxUnfinished*float64(int64(unfinished)+finished[side])
	}
	n := len(r.waiting)
	for ; n > 0; n-- {
		last := r.waiting[n-1]
		if few(baseline, last.sample.began) && few(candidate, last.sample.began) {
			break
		}
		finished[last.side]--
	}
	for _, w := range r.waiting[:n] {
		w.sample.count(w.moments)
	}
	r.waiting = slices.Delete(r.waiting, 0, n)
}

// tellEpisodes adds the fates of the episodes to the evidence.
func (r *run) tellEpisodes(e *Evidence) {
	for _, s := range r.strata {
		for side, to := range []*Episodes{&e.BaselineEpisodes, &e.CandidateEpisodes} {
			f := &s.episodes[side]
			to.Begun += f.all()
			to.Reported += f.reported
			to.Unfinished += f.unfinished
			to.Lost += f.lost()
		}
		b, c := &s.episodes[baseline], &s.episodes[candidate]
		e.Lost = append(e.Lost, Stratum{Baseline: share(b.lost(), b.all()), Candidate: share(c.lost(), c.all())})
	}
	e.Split = splitOf(r.strata)
	e.Complete = len(r.strata) > 0 && !r.strata[len(r.strata)-1].until.IsZero()
	for _, w := range r.waiting {
		if w.side == candidate {
			e.CandidateEpisodes.Waiting++
		} else {
			e.BaselineEpisodes.Waiting++
		}
	}
}
