package sharedsched

import (
	"math"
	"testing"
	"time"
)

// TestWeightsHoldAmongCallersWhoWait: callers that ask again once they are answered ask for no more than they get.
// Where not all answers can be in time, flows still get device time by their weights, whatever their batches
// cost.
func TestWeightsHoldAmongCallersWhoWait(t *testing.T) {
	for _, c := range []struct {
		weights, costs, targets [2]int // costs of a batch and targets in ms
		conflict                bool   // it takes the conflict rule; else to go first within a share is enough
	}{
		{[2]int{3, 1}, [2]int{18, 18}, [2]int{50, 50}, true},
		{[2]int{1, 1}, [2]int{18, 6}, [2]int{50, 50}, false},
		{[2]int{1, 4}, [2]int{5, 20}, [2]int{20, 60}, true},
		{[2]int{1, 1}, [2]int{8, 4}, [2]int{20, 80}, false},
	} {
		want := float64(c.weights[0]) / float64(c.weights[1])
		for _, patience := range []time.Duration{0, 10 * time.Second} {
			ratio := closedLoop(t, c.weights, c.costs, c.targets, patience, Variant{})
			if math.Abs(ratio/want-1) > 0.05 {
				t.Errorf("weights %v, batches of %v ms, targets of %v ms, patience %v: the ratio of their device time is "+
					"%.2f", c.weights, c.costs, c.targets, patience, ratio)
			}
		}
		for _, lack := range []Variant{{NoShares: true}, {NoConflictRule: true}} {
			if lack.NoConflictRule && !c.conflict {
				continue
			}
			if ratio := closedLoop(t, c.weights, c.costs, c.targets, 0, lack); math.Abs(ratio/want-1) < 0.2 {
				t.Errorf("weights %v, variant %+v: %.2f: this proves nothing", c.weights, lack, ratio)
			}
		}
	}
}

// closedLoop has 64 callers for each of two flows, with a limit to their patience or none, and returns the ratio of the
// device time that these get in 20 s.
func closedLoop(t *testing.T, weights, costs, targets [2]int, patience time.Duration, variant Variant) float64 {
	t.Helper()
	c, err := NewCore(Config{Devices: []Device{{Name: "d", Lanes: 1}}, Variant: variant})
	if err != nil {
		t.Fatal(err)
	}
	var versions [2]VersionID
	var cost [2]time.Duration
	for i := range versions {
		f, err := c.AddFlow("f", "d", float64(weights[i]))
		if err != nil {
			t.Fatal(err)
		}
		versions[i], err = c.AddVersion("v", f, Settings{Batched: true, MaxBatchSize: 16})
		if err != nil {
			t.Fatal(err)
		}
		cost[i] = time.Duration(costs[i]) * time.Millisecond
		for range 6 {
			curve := c.shapeOf(versions[i], "")
			curve.Settle(curve.Begin(1), cost[i]/2)
			curve.Settle(curve.Begin(16), cost[i])
		}
	}
	now := Time(0)
	ask := func(i, n int) {
		for range n {
			task := Task{Rows: 1, Target: time.Duration(targets[i]) * time.Millisecond}
			limit := Never
			if patience > 0 {
				limit = now.Add(patience)
			}
			if _, _, err := c.Submit(now, versions[i], &task, limit, nil); err != nil {
				t.Fatal(err)
			}
		}
	}
	ask(0, 64)
	ask(1, 64)
	var got [2]time.Duration
	for now < Time(20*time.Second) {
		b := &Batch{}
		if ok, _ := c.Next(now, 0, b, nil); !ok {
			t.Fatal("work waits and none was started")
		}
		i := 0
		if b.Version == versions[1] {
			i = 1
		}
		took := cost[i]/2 + cost[i]/2*time.Duration(b.Rows-1)/15
		now = now.Add(took)
		got[i] += took
		c.Settle(now, 0, b, Report{DeviceTime: took}, nil)
		ask(i, b.Rows)
	}
	return got[0].Seconds() / got[1].Seconds()
}

// TestOnlyRestIsSaved: while a batch of seconds runs nobody is picked, and so no flow looked at. One that rested then
// has saved half of its part, one that went on asking for more than that has not.
func TestOnlyRestIsSaved(t *testing.T) {
	const part, batch = 0.5, 3 * time.Second
	at := Time(time.Minute)
	now := at.Add(batch)
	for name, c := range map[string]struct {
		use  float64
		asks []Time
		want float64
	}{
		"rests":  {use: 0, asks: []Time{now}, want: part / savedPart * batch.Seconds()},
		"floods": {use: 2, asks: []Time{at.Add(time.Millisecond), now}, want: 0},
	} {
		w := newWaiting(t, Device{Name: "d", Lanes: 1}, Variant{})
		v := w.add(1, Settings{MaxBatchSize: 1}, fixed)
		f := w.c.version(v).flow
		f.looked = at
		for _, when := range c.asks {
			if _, _, err := w.c.Submit(when, v, &Task{Rows: 1}, Never, nil); err != nil {
				t.Fatal(err)
			}
		}
		f.save(now, part, c.use)
		if f.saved != c.want {
			t.Errorf("%s: saved %v s, want %v", name, f.saved, c.want)
		}
	}
}
