package sim

import (
	"testing"
	"time"
)

// TestBurstsWithinALongShare: a tenant of a tenth of the weight asks for less than a tenth of the device, but in bursts
// of two seconds of every ten, in which it asks for a third. A flood beside it is to cost it little.
func TestBurstsWithinALongShare(t *testing.T) {
	skipUnderRace(t)
	w := Workload{Models: []Model{linear("bursty", 2, 0.2, 60, 1), linear("flood", 10, 1, 200, 1)}}
	demands(w.Models[:1], 0.065)
	demands(w.Models[1:], 3)
	w.Models[0].Weight, w.Models[1].Weight = 1, 9
	var course []Part
	for at := 0; at < 60; at += 10 {
		course = append(course, Part{Until: at + 2, Factor: 5}, Part{Until: at + 10, Factor: 0})
	}
	w.Arrivals = []Process{{Course: Course(60, course...)}, {}}
	p := Core(Ours, CoreOptions{Handover: Handover})
	var bursty Tally
	for seed := uint64(1); seed <= 3; seed++ {
		bursty.add(&w.Play(&p, 1, time.Minute, seed).Flows[0])
	}
	if bursty.Share() < 0.9 {
		t.Errorf("%.3f of the bursts are on time, want 0.9", bursty.Share())
	}
}
