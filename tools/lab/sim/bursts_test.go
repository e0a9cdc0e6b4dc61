package sim

import (
	"fmt"
	"testing"
	"time"
)

// TestBurstsWithinALongShare: a tenant of a tenth of the weight asks for less than a tenth of the device, but in bursts
// of two seconds, in which it asks for a third. A flood beside it is to cost it little, also where the bursts are so
// rare that it counts as new each time.
func TestBurstsWithinALongShare(t *testing.T) {
	skipUnderRace(t)
	const burst = 2
	for _, period := range []int{10, 14, 20} {
		t.Run(fmt.Sprintf("every %d s", period), func(t *testing.T) {
			w := Workload{Models: []Model{linear("bursty", 2, 0.2, 60, 1), linear("flood", 10, 1, 200, 1)}}
			demands(w.Models[:1], 0.65/float64(period))
			demands(w.Models[1:], 3)
			w.Models[0].Weight, w.Models[1].Weight = 1, 9
			var course []Part
			span := 6 * period
			for at := 0; at < span; at += period {
				course = append(course, Part{Until: at + burst, Factor: float64(period) / burst},
					Part{Until: at + period, Factor: 0})
			}
			w.Arrivals = []Process{{Course: Course(span, course...)}, {}}
			p := Core(Ours, CoreOptions{Handover: Handover})
			var bursty Tally
			for seed := uint64(1); seed <= 3; seed++ {
				bursty.add(&w.Play(&p, 1, time.Duration(span)*time.Second, seed).Flows[0])
			}
			if bursty.Share() < 0.9 {
				t.Errorf("%.3f of the bursts are on time, want 0.9", bursty.Share())
			}
		})
	}
}
