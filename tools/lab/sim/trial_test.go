package sim

import (
	"testing"
	"time"
)

// TestCarries: runs that end early and requests that are used again decide as whole runs do.
func TestCarries(t *testing.T) {
	w := inSuite("het30cv3")
	e := Effort{Span: time.Second, Seeds: 3, Precision: 0.04}
	shared := newTrial(w, e)
	seen := map[bool]int{}
	for _, load := range []float64{0.3, 0.6, 0.8, 0.9, 1, 1.1, 1.3, 2} {
		for _, p := range []Maker{Core(Ours, CoreOptions{}), Baselines()[0], Baselines()[1]} {
			share, got := newTrial(w, e).onTime(&p, load), shared.carries(&p, load)
			if got != (share >= attained) {
				t.Errorf("%s at %g: carries %v, %.4f are on time", p.Name, load, got, share)
			}
			seen[got]++
		}
	}
	if seen[true] < 5 || seen[false] < 5 {
		t.Errorf("answers %v: this test proves nothing", seen)
	}
}

// TestLost: a run ends as soon as one request more is lost than may be.
func TestLost(t *testing.T) {
	m := sized(linear("m", 10, 0, 25, 1), 1) // every third request of those below is on time at most
	for lost, want := range map[int]int{0: 1, 3: 4, 1000: 0} {
		requests := make([]Request, 60)
		for i := range requests {
			requests[i] = Request{Rows: 1, Arrival: Time(i) * 3e6, Deadline: Time(i)*3e6 + 25e6}
		}
		fifo := func(e *Env) Policy { return &script{env: e, next: inOrder(1)} }
		r, err := Run(&Setup{Models: []Model{m}, Lost: &lost}, requests, fifo)
		if err != nil {
			t.Fatal(err)
		}
		total := r.Total()
		if missed := total.Fates[Late] + total.Fates[Dropped]; want > 0 && missed != want || want == 0 &&
			total.Offered != len(requests) {
			t.Errorf("with %d allowed to be lost, %d of %d that came were", lost, missed, total.Offered)
		}
	}
}
