package sharedsched

import (
	"slices"
	"testing"
	"time"
)

// TestCallersWhoWaitBesideAFlood: callers who ask again a moment after their answers, and name no time, are answered
// nearly as soon as without a flood beside them, while they ask for no more than their share by weight.
func TestCallersWhoWaitBesideAFlood(t *testing.T) {
	for _, c := range []struct {
		callers int
		weight  float64
		slower  float64 // the median, at most, than without the flood
		ratio   float64 // of the device times, at least
	}{
		{1, 3, 1.5, 2.4},
		{16, 3, 1.5, 2.4},
		{64, 3, 1.5, 2.4},
		{1, 1, 3, 0.9},
	} {
		for _, d := range []Device{{Name: "d", Lanes: 1}, {Name: "d", Lanes: 2, Handover: time.Millisecond}} {
			alone, _ := besideAFlood(t, d, c.callers, c.weight, 0, Variant{})
			median, ratio := besideAFlood(t, d, c.callers, c.weight, 256, Variant{})
			if slower := float64(median) / float64(alone); slower > c.slower || ratio < c.ratio {
				t.Errorf("%+v, %d callers of weight %v: %v, alone %v; %.2f times the flood's device time", d, c.callers, c.weight,
					median, alone, ratio)
			}
			median, _ = besideAFlood(t, d, c.callers, c.weight, 256, Variant{NoAwait: true})
			if c.callers < 64 && float64(median) < 1.7*float64(alone) {
				t.Errorf("%+v, %d callers of weight %v: without waiting for them %v, alone %v: this proves nothing", d, c.callers,
					c.weight, median, alone)
			}
		}
	}
}

// besideAFlood returns the median time to the answers of a flow with so many callers, and the ratio of its device time
// to that of a flow of as many patient callers of another model, in 20 s.
func besideAFlood(t *testing.T, d Device, callers int, weight float64, flood int, variant Variant) (
	median time.Duration, ratio float64,
) {
	t.Helper()
	w := newWaiting(t, d, variant)
	s := Settings{Batched: true, MaxBatchSize: 32, MaxQueue: 1000}
	cost := func(rows int) time.Duration { return 10*time.Millisecond + time.Duration(rows)*time.Millisecond }
	a := w.ask(crowd{n: callers, pause: time.Millisecond / 2, version: w.add(weight, s, cost)})
	b := w.ask(crowd{n: flood, pause: time.Millisecond / 2, version: w.add(1, s, cost)})
	w.until(Time(20 * time.Second))
	slices.Sort(a.took)
	return a.took[len(a.took)/2], float64(w.used[a.version]) / float64(max(w.used[b.version], 1))
}

// TestOwedPassesNobodyOfItsOwnFlow: a flow that is behind all others is not behind itself. Its queue that is due first
// goes, and not the one whose callers just asked: with these asking on and on the others would wait for ever.
func TestOwedPassesNobodyOfItsOwnFlow(t *testing.T) {
	for _, beside := range []bool{false, true} { // another flow, with a task that is due before all
		w := newWaiting(t, Device{Name: "d", Lanes: 1}, Variant{})
		v := w.add(1, Settings{Batched: true, MaxBatchSize: 2}, fixed, "old", "new")
		other := w.add(1, Settings{MaxBatchSize: 1}, fixed)
		for _, f := range w.c.flows {
			f.beyond = true
		}
		var first Handle
		ask := func(v VersionID, key string) {
			h, _, err := w.c.Submit(w.now, v, &Task{Rows: 1, Key: key, ShapeKey: key}, Never, nil)
			if err != nil {
				t.Fatal(err)
			}
			if w.now++; w.now == 1 {
				first = h
			}
		}
		if beside {
			ask(other, "")
		}
		for _, key := range []string{"old", "old", "new"} { // a full batch, and half of one
			ask(v, key)
		}
		var b Batch
		if ok, _ := w.c.Next(w.now, 0, &b, nil); !ok || b.Spans[0].Task() != first {
			t.Errorf("beside another flow: %v; the batch does not begin with the task that was there first", beside)
		}
	}
}
