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
