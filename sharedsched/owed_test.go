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
	c, err := NewCore(Config{Devices: []Device{d}, Variant: variant})
	if err != nil {
		t.Fatal(err)
	}
	cost := func(rows int) time.Duration { return 10*time.Millisecond + time.Duration(rows)*time.Millisecond }
	var versions [2]VersionID
	for i, w := range []float64{weight, 1} {
		f, err := c.AddFlow("f", "d", w)
		if err != nil {
			t.Fatal(err)
		}
		versions[i], err = c.AddVersion("v", f, Settings{Batched: true, MaxBatchSize: 32, MaxQueue: 1000, Adaptive: true})
		if err != nil {
			t.Fatal(err)
		}
		curve := c.shapeOf(versions[i], "")
		for range 6 {
			for _, rows := range []int{1, 8, 32} {
				curve.Settle(curve.Begin(rows), cost(rows))
			}
		}
	}
	const pause = time.Millisecond / 2
	type back struct {
		at   Time
		flow int
	}
	var coming []back
	for i := range callers {
		coming = append(coming, back{Time(i), 0})
	}
	for i := range flood {
		coming = append(coming, back{Time(i), 1})
	}
	asked, flow := map[Handle]Time{}, map[Handle]int{}
	var took []time.Duration
	var used [2]time.Duration
	type running struct {
		*Batch
		lane LaneID
		ends Time
	}
	var runs []running // in order; a batch that was handed over early waits for the end of the one before it
	now := Time(0)
	for now < Time(20*time.Second) {
		next, first := c.NextWake(), -1
		if len(runs) > 0 {
			next = min(next, runs[0].ends)
		}
		for i, k := range coming {
			if k.at <= next && (first < 0 || k.at < coming[first].at) {
				first = i
			}
		}
		switch {
		case first >= 0:
			k := coming[first]
			coming = slices.Delete(coming, first, first+1)
			now = max(now, k.at)
			h, _, err := c.Submit(now, versions[k.flow], &Task{Rows: 1}, Never, nil)
			if err != nil {
				t.Fatal(err)
			}
			asked[h], flow[h] = now, k.flow
		case len(runs) > 0 && next == runs[0].ends:
			b := runs[0]
			runs, now = runs[1:], b.ends
			for i, s := range b.Spans {
				h := s.Task()
				if flow[h] == 0 {
					took = append(took, now.Sub(asked[h]))
				}
				coming = append(coming, back{now.Add(pause + time.Duration(i)*pause/32), flow[h]})
				delete(asked, h)
			}
			used[flow[b.Spans[0].Task()]] += cost(b.Rows)
			c.Settle(now, b.lane, b.Batch, Report{DeviceTime: cost(b.Rows)}, nil)
		default:
			now = max(now, next)
			c.Advance(now, nil)
		}
		for lane := range LaneID(d.Lanes) {
			b := &Batch{}
			if slices.ContainsFunc(runs, func(r running) bool { return r.lane == lane }) {
				continue
			}
			if ok, _ := c.Next(now, lane, b, nil); ok {
				begins := now
				if len(runs) > 0 {
					begins = runs[len(runs)-1].ends
				}
				runs = append(runs, running{b, lane, begins.Add(cost(b.Rows))})
			}
		}
	}
	slices.Sort(took)
	return took[len(took)/2], float64(used[0]) / float64(max(used[1], 1))
}

// TestOwedPassesNobodyOfItsOwnFlow: a flow that is behind all others is not behind itself. Its queue that is due first
// goes, and not the one whose callers just asked: with these asking on and on the others would wait for ever.
func TestOwedPassesNobodyOfItsOwnFlow(t *testing.T) {
	c, err := NewCore(Config{Devices: []Device{{Name: "d", Lanes: 1}}})
	if err != nil {
		t.Fatal(err)
	}
	f, err := c.AddFlow("f", "d", 1)
	if err != nil {
		t.Fatal(err)
	}
	v, err := c.AddVersion("v", f, Settings{Batched: true, MaxBatchSize: 2})
	if err != nil {
		t.Fatal(err)
	}
	c.flows[f].beyond = true
	for _, key := range []string{"old", "new"} {
		curve := c.shapeOf(v, key)
		for range 6 {
			for rows := 1; rows <= 2; rows++ {
				curve.Settle(curve.Begin(rows), 10*time.Millisecond)
			}
		}
	}
	var first Handle
	for i, key := range []string{"old", "old", "new"} { // a full batch, and half of one
		h, _, err := c.Submit(Time(i), v, &Task{Rows: 1, Key: key, ShapeKey: key}, Never, nil)
		if err != nil {
			t.Fatal(err)
		}
		if i == 0 {
			first = h
		}
	}
	var b Batch
	if ok, _ := c.Next(3, 0, &b, nil); !ok || b.Spans[0].Task() != first {
		t.Errorf("the batch has %d rows, want the two that were there first", b.Rows)
	}
}
