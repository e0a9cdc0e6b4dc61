package sim

import (
	"fmt"
	"testing"
	"time"

	"github.com/weftserve/weft/sharedsched"
)

// coldRun is a run of the simulator with the standard model, before anything was measured of it.
type coldRun struct {
	requests []Request
	batches  []sharedsched.Decision // the first of them
	rows     []int                  // by batch: the most rows that it could have had
}

func playCold(t *testing.T, rate float64, seed uint64) *coldRun {
	t.Helper()
	run := &coldRun{}
	core := Core(Ours, CoreOptions{Decided: func(c *sharedsched.Core, now Time) {
		if len(run.batches) == watched {
			return
		}
		s := c.State(now)
		if len(s.Decisions) == 0 || s.Decisions[0].Kind != sharedsched.Ran {
			return
		}
		newest := s.Decisions[0]
		if n := len(run.batches); n > 0 && run.batches[n-1].At == newest.At {
			return
		}
		run.batches = append(run.batches, newest)
		run.rows = append(run.rows, s.Versions[0].Queues[0].MaxRows)
	}})
	w := Workload{
		Models: []Model{{
			Name: "cold", Base: 20 * time.Millisecond, PerRow: time.Millisecond, SLO: 500 * time.Millisecond,
			MaxBatch: 100, MaxCost: 120 * time.Millisecond, Rate: rate, Cold: true,
		}},
		Arrivals: []Process{{}},
		Device:   TypicalDevice,
	}
	run.requests = w.Requests(1, coldSpan, seed)
	if _, err := Run(&Setup{Models: w.Models, Device: w.Device, Seed: seed}, run.requests,
		core.New); err != nil {
		t.Fatal(err)
	}
	return run
}

const (
	learnt  = 24 // batches that a cold model has to learn its curve
	watched = 60 // batches that are looked at

	coldSpan     = 10 * time.Second
	coldCapacity = 100 / 0.120 // answers a second
)

// TestColdModel: a model without measurements is called at once with most of the load that it can answer, or with more
// than that. After 24 batches its batches are as large as they may be and their costs are known, and hardly any answer
// came too late meanwhile.
func TestColdModel(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes 5 seconds")
	}
	for _, rate := range []float64{700, 1500} {
		for seed := range uint64(5) {
			t.Run(fmt.Sprintf("%v per second, seed %d", rate, seed), func(t *testing.T) {
				run := playCold(t, rate, seed)
				if most := run.rows[learnt]; most < 95 {
					t.Errorf("batch %d may have %d rows, want 100 or nearly so", learnt, most)
				}
				for i, b := range run.batches[learnt:] {
					cost := 20*time.Millisecond + time.Duration(b.Rows)*time.Millisecond
					if wrong := float64(b.Estimate.Cost)/float64(cost) - 1; max(wrong, -wrong) > 0.05 {
						t.Errorf("batch %d of %d rows is expected to take %v, it takes %v", learnt+i, b.Rows,
							b.Estimate.Cost, cost)
					}
				}
				fates, intime := map[Fate]int{}, 0
				for i := range run.requests {
					q := &run.requests[i]
					fates[q.Fate]++
					if q.Fate == OnTime && time.Duration(q.Finish) <= coldSpan {
						intime++
					}
				}
				t.Logf("of %d requests %d were answered in time, %d of them within %v, %d late, %d refused, %d dropped",
					len(run.requests), fates[OnTime], intime, coldSpan, fates[Late], fates[Refused],
					fates[Dropped])
				if late := fates[Late]; late > len(run.requests)/200 {
					t.Errorf("%d of %d answers came too late", late, len(run.requests))
				}
				// Compared with the requests that the model could have answered, had its curve been known.
				if could := min(rate, coldCapacity) * coldSpan.Seconds(); float64(intime) < 0.9*could {
					t.Errorf("%d requests were answered in time, of %.0f that could have been", intime, could)
				}
			})
		}
	}
}
