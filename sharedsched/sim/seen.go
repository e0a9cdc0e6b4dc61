package sim

import (
	"fmt"
	"time"
)

// Seen has the outcomes of the requests of a scene under a policy, over all seeds.
type Seen struct {
	Policy               string
	All, InShare, Worst  float64 // share on time: of all, of the flows within their share (InShare), of the worst flow
	Watched              float64 // share on time of the requests that the scene watches
	Useful, Wasted, Idle float64 // device time per time: for results on time, for late ones, idle while requests waited
}

func (s *Seen) String() string { return fmt.Sprintf("%.2f / %.2f / %.2f", s.All, s.InShare, s.Worst) }

// Play runs the scene under a policy.
func (s *Scene) Play(p *Maker, e Effort) (Seen, error) {
	seen := Seen{Policy: p.Name, Worst: 1}
	var all, inShare, watched Tally
	models := s.Workload.Models
	w := 1 / float64(e.Seeds)
	for i := range e.Seeds {
		r, err := s.Workload.Play(p, s.Load, e.Span, e.seed(i))
		if err != nil {
			return Seen{}, err
		}
		t := r.Total()
		all.add(&t)
		modest := r.Of(InShare(models, r))
		inShare.add(&modest)
		innocent := s.watch(r, e.Span)
		watched.add(&innocent)
		seen.Worst = min(seen.Worst, r.Worst())
		span := max(r.Span.Seconds(), 1e-9)
		seen.Useful += w * t.Useful.Seconds() / span
		seen.Wasted += w * t.Wasted.Seconds() / span
		seen.Idle += w * r.Idle.Seconds() / span
	}
	seen.All, seen.InShare, seen.Watched = all.Share(), inShare.Share(), watched.Share()
	return seen, nil
}

func (s *Scene) watch(r *Result, span time.Duration) Tally {
	from := Time(0)
	if s.From != nil {
		from = Time(s.From(span))
	}
	var t Tally
	for i := range r.requests {
		q := &r.requests[i]
		if q.Background || q.Arrival < from || s.Watched != nil && !s.Watched(&s.Workload.Models[q.Model]) {
			continue
		}
		t.Offered++
		if q.Fate == OnTime {
			t.OnTime++
		}
	}
	return t
}
