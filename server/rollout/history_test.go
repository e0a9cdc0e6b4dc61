package rollout

import (
	"testing"
	"time"
)

// TestHistoryIsBounded, has the first and the last point, and no wide gap.
func TestHistoryIsBounded(t *testing.T) {
	for _, n := range []int64{1, 2, maxPoints, maxPoints + 1, 1000, 12_345} {
		var h History
		for i := range n {
			r := Report{Metrics: []Metric{{
				Name: "outcome", BaselineCount: i, CandidateCount: 7, Low: new(1.0), Difference: new(2.0), High: new(3.0),
			}}}
			h.add(&r)
			h.add(&r) // a look at the same episodes
			if len(h.Points) > maxPoints {
				t.Fatalf("%d points", len(h.Points))
			}
			if last := h.Points[len(h.Points)-1]; last.Baseline != i {
				t.Fatalf("of %d points the last is %+v", i+1, last)
			}
		}
		if h.Points[0].Baseline != 0 || n > maxPoints && len(h.Points) < maxPoints/2 {
			t.Errorf("of %d points there are %d, from %+v on", n, len(h.Points), h.Points[0])
		}
		for i := 1; i < len(h.Points)-1; i++ {
			if gap := h.Points[i].Baseline - h.Points[i-1].Baseline; gap > max(1, 5*n/maxPoints) {
				t.Fatalf("of %d points a gap is %d", n, gap)
			}
		}
	}
	var h History
	h.add(&Report{Metrics: []Metric{{Name: "outcome", BaselineCount: 3}}})
	if len(h.Points) > 0 {
		t.Error("a point without an interval")
	}
}

// TestMomentsAreBounded, and steps are the last to go.
func TestMomentsAreBounded(t *testing.T) {
	var h History
	h.mark(&Report{Verdict: Hold}, time.Time{}, 1, true)
	for range 10 * maxMoments {
		h.mark(&Report{Verdict: Promote}, time.Time{}, 1, false)
	}
	if len(h.Moments) != maxMoments || !h.Moments[0].Step || h.Moments[1].Step {
		t.Errorf("%d moments, the first %+v", len(h.Moments), h.Moments[0])
	}
}

// TestARolloutHasAHistory: the interval narrows, and each step is marked where it came.
func TestARolloutHasAHistory(t *testing.T) {
	within(t, nil, func(t *testing.T, b *bench) {
		b.start(t, nil)
		for range 40 {
			b.serve(10, 1, 2)
			pass(time.Second)
		}
		r := b.state(t)
		first, last := r.History.Points[0], r.History.Points[len(r.History.Points)-1]
		if len(r.History.Points) < 20 || last.High-last.Low > (first.High-first.Low)/2 || last.Candidate != 400 {
			t.Errorf("%d points, from %+v to %+v", len(r.History.Points), first, last)
		}
		if o := r.Report.Metric("outcome"); *o.Low != last.Low || *o.High != last.High || last.Low > 1 || last.High < 1 {
			t.Errorf("the last point is %+v, the report's %+v", last, o)
		}
		var steps []float64
		for _, m := range r.History.Moments {
			if m.Step {
				steps = append(steps, m.Percent)
			}
		}
		if m := r.History.Moments; len(steps) != len(r.Steps) || steps[1] != 10 || m[1].Step || m[1].Verdict != Promote ||
			m[1].Candidate < 20 {
			t.Errorf("steps to %v, moments %+v", steps, m)
		}
		t.Log(r.Report.Summary)
	})
}
