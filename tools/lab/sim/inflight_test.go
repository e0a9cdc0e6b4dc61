package sim

import (
	"testing"
	"time"
)

// TestTwoBatchesInFlight: a second batch in flight costs hardly anything where there is nothing to gain, and gains
// where there is something. Started as soon as there is something to run, it would cost a quarter.
func TestTwoBatchesInFlight(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes 6 seconds")
	}
	skipUnderRace(t)
	s := Study{
		InFlight: Families(InFlight()), Effort: Effort{Span: 5 * time.Second, Seeds: 1, Precision: 0.04}, Workers: 2,
	}
	for _, name := range []string{"single", "het30", "bimodal", "blocker"} {
		w := inSuite(name)
		s.Workloads = append(s.Workloads, *w)
	}
	f := s.Run()
	musts := map[string]struct{ mean, worst float64 }{
		"two gain nothing: handed over":      {0.94, 0.88}, // 0.99 and 0.97 with the effort of a full study
		"two do 10 % more: handed over":      {1, 0.92},    // 1.03 and 1.00
		"a fiftieth is copying: handed over": {1, 0.96},    // the same
	}
	for _, m := range s.InFlight[1:] {
		must, ours := musts[m.Name]
		worst, copying := 10.0, 0.0
		var ratios []float64
		for _, w := range s.Workloads {
			it := f.Carried[Pair{m.Name, w.Name}]
			ratio := it.G99 / f.Carried[Pair{s.InFlight[0].Name, w.Name}].G99
			ratios, worst, copying = append(ratios, ratio), min(worst, ratio), max(copying, it.Copying)
		}
		mean := geomean(ratios)
		t.Logf("%s: %.3f of the load of one at a time, at worst %.3f; %.3f of the time nothing computes", m.Name, mean,
			worst, copying)
		if !ours {
			if worst > 0.6 {
				t.Errorf("%s: carries %.2f times what one at a time does at worst: this test proves little", m.Name,
					worst)
			}
			continue
		}
		if mean < must.mean || worst < must.worst {
			t.Errorf("%s: carries %.3f times what one at a time does, at worst %.3f; must be %.2f and %.2f", m.Name,
				mean, worst, must.mean, must.worst)
		}
		if copying > 0.018 {
			t.Errorf("%s: nothing computes for %.3f of the device's time, want less than the fiftieth that is copied",
				m.Name, copying)
		}
	}
}
