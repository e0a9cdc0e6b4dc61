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

func (s Seen) String() string { return fmt.Sprintf("%.2f / %.2f / %.2f", s.All, s.InShare, s.Worst) }

// PlayBest runs the scene under the member of a family that has the largest share of all requests on time in training.
func (s *Scene) PlayBest(f *Family, e Effort) Seen {
	who, _ := tune(&s.Workload, f, e.training(),
		func(t *trial, m *Maker, _ float64) float64 { return t.onTime(m, s.Load) })
	return s.Play(who, e)
}

// Play runs the scene under a policy.
func (s *Scene) Play(p *Maker, e Effort) Seen {
	seen := Seen{Policy: p.Name, Worst: 1}
	var all, inShare, watched Tally
	w := 1 / float64(e.Seeds)
	for i := range e.Seeds {
		r := s.Workload.Play(p, s.Load, e.Span, e.seed(i))
		t := r.Total()
		all.add(&t)
		modest := InShare(s.Workload.Models, r)
		within := r.Of(func(q *Request) bool { return modest[q.Model] })
		inShare.add(&within)
		innocent := s.watch(r, e.Span)
		watched.add(&innocent)
		seen.Worst = min(seen.Worst, r.Worst())
		span := max(r.Span().Seconds(), 1e-9)
		seen.Useful += w * t.Useful.Seconds() / span
		seen.Wasted += w * t.Wasted.Seconds() / span
		seen.Idle += w * r.Idle.Seconds() / span
	}
	seen.All, seen.InShare, seen.Watched = all.Share(), inShare.Share(), watched.Share()
	return seen
}

// watch counts the requests that the scene watches.
func (s *Scene) watch(r *Result, span time.Duration) Tally {
	from := Time(0)
	if s.From != nil {
		from = Time(s.From(span))
	}
	return r.Of(func(q *Request) bool {
		return q.Arrival >= from && (s.Watched == nil || s.Watched(&s.Workload.Models[q.Model]))
	})
}
