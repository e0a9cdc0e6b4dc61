package rollout

import (
	"slices"
	"time"
)

// maxPoints and maxMoments bound a history.
const maxPoints, maxMoments = 256, 256

// History is how the interval of the outcome narrowed, since the evidence began.
type History struct {
	Points  []Point  `json:"points,omitempty"`  // the oldest first
	Moments []Moment `json:"moments,omitempty"` // the oldest first
}

// Point is the metric "outcome" at one time.
type Point struct {
	At         time.Time `json:"at"`
	Baseline   int64     `json:"baseline_count"`
	Candidate  int64     `json:"candidate_count"`
	Difference float64   `json:"difference"`
	Low        float64   `json:"low"`
	High       float64   `json:"high"`
}

// Moment is a step of the rollout, or a change of the gate's verdict.
type Moment struct {
	At        time.Time `json:"at"`
	Baseline  int64     `json:"baseline_count"` // episodes that the outcome was compared by
	Candidate int64     `json:"candidate_count"`
	Verdict   Verdict   `json:"verdict"`
	Step      bool      `json:"step,omitempty"`
	Percent   float64   `json:"percent"` // of the candidate, afterwards
}

// clone returns a copy that shares nothing that changes.
func (h History) clone() History {
	return History{Points: slices.Clone(h.Points), Moments: slices.Clone(h.Moments)}
}

// mark adds a moment, at the cost of the oldest one that is no step where there is no room.
func (h *History) mark(r *Report, at time.Time, percent float64, step bool) {
	m := Moment{At: at, Verdict: r.Verdict, Step: step, Percent: percent}
	if o := r.Metric("outcome"); o != nil {
		m.Baseline, m.Candidate = o.BaselineCount, o.CandidateCount
	}
	if len(h.Moments) == maxMoments {
		oldest := max(0, slices.IndexFunc(h.Moments, func(m Moment) bool { return !m.Step }))
		h.Moments = slices.Delete(h.Moments, oldest, oldest+1)
	}
	h.Moments = append(h.Moments, m)
}

// thinning is which of many points are kept.
type thinning struct {
	seen  int  // points that came
	every int  // one of so many is kept, a power of two; 0 is 1
	loose bool // the last point is only kept until the next one comes
}

// add adds a point if the outcome of another number of episodes was compared than at the last one. When there are
// maxPoints, every second of them is dropped, and so many fewer are kept from then on. The last one is always there.
func (t *thinning) add(h *History, r *Report) {
	o := r.Metric("outcome")
	if o == nil || o.Low == nil || o.High == nil || o.Difference == nil {
		return
	}
	p := Point{r.At, o.BaselineCount, o.CandidateCount, *o.Difference, *o.Low, *o.High}
	if n := len(h.Points); n > 0 {
		if last := &h.Points[n-1]; last.Baseline == p.Baseline && last.Candidate == p.Candidate {
			return
		}
		if t.loose {
			h.Points = h.Points[:n-1]
		}
	}
	t.every = max(t.every, 1)
	if len(h.Points) == maxPoints {
		for i := range maxPoints / 2 {
			h.Points[i] = h.Points[2*i]
		}
		h.Points = h.Points[:maxPoints/2]
		t.every *= 2
	}
	h.Points = append(h.Points, p)
	t.loose = t.seen%t.every != 0
	t.seen++
}
