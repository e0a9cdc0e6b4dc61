package sim

import (
	"testing"
	"time"

	"github.com/weftserve/weft/sharedsched"
)

// steady is a workload whose device does exactly what its profiles say, times a factor.
func steady(factor float64, cold bool) Workload {
	models := equal(3, 2, 0.2, 100)
	toCapacity(models)
	w := Workload{Name: "steady", Models: models, Arrivals: []Process{{}}}
	for i := range models {
		models[i].Cold = cold
		w.Error = append(w.Error, factor)
	}
	return w
}

// TestCoreIsTaughtTheProfiles: a warm model's batches take as long as the scheduler expects, a cold one's are unknown
// at first, and a wrong profile is unlearned.
func TestCoreIsTaughtTheProfiles(t *testing.T) {
	core := Core(Ours, CoreOptions{})
	play := func(w Workload) *Result {
		t.Helper()
		return w.Play(&core, 0.5, 2*time.Second, 1)
	}
	errorOf := func(r *Result, part float64) float64 {
		var errors []float64
		for _, p := range r.Predictions {
			errors = append(errors, p.Error)
		}
		return quantile(errors, part)
	}
	exact := play(steady(1, false))
	if e := errorOf(exact, 0.95); e > 0.02 {
		t.Errorf("exact profiles: error %.4f at the 95th percentile", e)
	}
	if share := shareOf(exact); share != 1 {
		t.Errorf("exact profiles at half load: %.3f on time", share)
	}
	wrong := play(steady(2, false))
	if e := errorOf(wrong, 0.95); e < 0.05 {
		t.Errorf("profiles of twice the cost: error %.4f at the 95th percentile, want it to be wrong at first", e)
	} else if e := errorOf(wrong, 0.5); e > 0.02 {
		t.Errorf("profiles of twice the cost: median error %.4f, want it to be unlearned", e)
	}
	if cold := play(steady(1, true)); cold.Total().Offered == 0 || shareOf(cold) < 0.9 {
		t.Errorf("cold models at half load: %+v", cold.Total())
	}
}

func shareOf(r *Result) float64 {
	t := r.Total()
	return t.Share()
}

// TestCoreTellsEveryDecision: the hook sees the scheduler after each event.
func TestCoreTellsEveryDecision(t *testing.T) {
	w := steady(1, false)
	seen, last := 0, Time(0)
	core := Core(Ours, CoreOptions{Decided: func(c *sharedsched.Core, now Time) {
		seen++
		if now < last {
			t.Fatalf("time goes back from %d to %d", last, now)
		}
		last = now
		if n := len(c.State(now).Flows); seen == 1000 && n != len(w.Models)+1 {
			t.Errorf("the state has %d flows, want one for each model and that of warming up", n)
		}
	}})
	r := w.Play(&core, 0.9, 2*time.Second, 1)
	if least := r.Total().Offered + 2*r.Batches; seen < least {
		t.Errorf("%d decisions seen, there were at least %d", seen, least)
	}
}

// TestCoreOptions: the options reach the scheduler.
func TestCoreOptions(t *testing.T) {
	core := Core("small", CoreOptions{Settings: func(_ *Model, s *sharedsched.Settings) { s.MaxBatchSize = 2 }})
	w := steady(1, false)
	r := w.Play(&core, 3, time.Second, 1)
	if mean := float64(r.Rows) / float64(r.Batches); mean > 2 || mean < 1.5 {
		t.Errorf("mean batch %.2f where 2 is the most", mean)
	}
}

// TestCoreGivesUpInTime: a request that the scheduler gives up ends then, and not when the run is over.
func TestCoreGivesUpInTime(t *testing.T) {
	core := Core(Ours, CoreOptions{})
	w := steady(1, false)
	r := w.Play(&core, 2, 2*time.Second, 1)
	dropped := 0
	for i := range r.requests {
		q := &r.requests[i]
		if q.Fate != Dropped {
			continue
		}
		dropped++
		if over := q.Finish.Sub(q.Deadline); q.Finish > q.Deadline && over > 20*time.Millisecond {
			t.Fatalf("a request was given up %v after its deadline", over)
		}
	}
	if dropped == 0 {
		t.Error("nothing was given up at twice the capacity: this test proves nothing")
	}
}
