package rollout

import (
	"slices"
	"time"
)

// maxPoints and maxMoments bound a history, which is written whole each time that the rollout is kept.
const maxPoints, maxMoments = 256, 256

// History is how the interval of the outcome narrowed, since the evidence began.
type History struct {
	Points  []Point  `json:"points,omitempty"`  // the oldest first
	Moments []Moment `json:"moments,omitempty"` // the oldest first
}

// Point is the metric "outcome" at one time: the difference and its interval, and how many episodes of each version it
// rests on.
type Point struct {
	At         time.Time `json:"at"`
	Baseline   int64     `json:"baseline_count"`
	Candidate  int64     `json:"candidate_count"`
	Difference float64   `json:"difference"`
	Low        float64   `json:"low"`
	High       float64   `json:"high"`
}

// Moment is a step of the rollout, or a change of the promotion gate's verdict.
type Moment struct {
	At        time.Time `json:"at"`
	Baseline  int64     `json:"baseline_count"` // episodes that the outcome was compared by
	Candidate int64     `json:"candidate_count"`
	Verdict   Verdict   `json:"verdict"`
	Step      bool      `json:"step,omitempty"`
	Percent   float64   `json:"percent"` // of the candidate, afterwards
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

// add adds a point if the outcome of another number of episodes was compared than at the last one. The more
// episodes there are, the farther points lie apart: the last one goes when the next one comes if it lies close to the
// one before, and when there are maxPoints every second of them goes.
func (h *History) add(r *Report) {
	o := r.Metric("outcome")
	if o == nil || o.Low == nil || o.High == nil || o.Difference == nil {
		return
	}
	p := Point{r.At, o.BaselineCount, o.CandidateCount, *o.Difference, *o.Low, *o.High}
	n := len(h.Points)
	if n > 0 && h.Points[n-1].Baseline == p.Baseline && h.Points[n-1].Candidate == p.Candidate {
		return
	}
	if n > 1 && h.Points[n-1].episodes()-h.Points[n-2].episodes() < 2*p.episodes()/maxPoints {
		h.Points = h.Points[:n-1]
	} else if n == maxPoints {
		// Every second one, beginning with the oldest.
		for i := range maxPoints / 2 {
			h.Points[i] = h.Points[2*i]
		}
		h.Points = h.Points[:maxPoints/2]
	}
	h.Points = append(h.Points, p)
}

func (p *Point) episodes() int64 { return p.Baseline + p.Candidate }
