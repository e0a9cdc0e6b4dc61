package sharedsched

import (
	"fmt"
	"slices"
	"testing"
	"time"
)

// waiting has crowds of callers ask a Core for one row each, wait for the answer, and ask again after a pause.
type waiting struct {
	t      *testing.T
	c      *Core
	device Device
	now    Time
	costs  []func(rows int) time.Duration // by version
	used   []time.Duration                // by version
	coming []waitingCaller                // callers that do not wait, in no order
	asked  map[Handle]waitingCaller
	runs   []waitingRun // in order
}

// crowd is so many callers who ask for the same.
type crowd struct {
	n             int
	version       VersionID
	key           string
	target, pause time.Duration
	from          Time
	again         func() time.Duration // in the place of pause, if there is one
	open          bool                 // they ask again without their answer

	took []time.Duration // until each answer
}

// waitingCaller is one of a crowd, and when it asks next, or asked.
type waitingCaller struct {
	of *crowd
	at Time
}

type waitingRun struct {
	*Batch
	lane LaneID
	ends Time
}

func newWaiting(t *testing.T, d Device, v Variant) *waiting {
	t.Helper()
	c, err := NewCore(Config{Devices: []Device{d}, Variant: v})
	if err != nil {
		t.Fatal(err)
	}
	return &waiting{t: t, c: c, device: d, asked: map[Handle]waitingCaller{}}
}

// add adds a flow with a version, whose costs are known for some keys.
func (w *waiting) add(weight float64, s Settings, cost func(rows int) time.Duration, keys ...string) VersionID {
	w.t.Helper()
	f, err := w.c.AddFlow("f", w.device.Name, weight)
	if err != nil {
		w.t.Fatal(err)
	}
	v, err := w.c.AddVersion("v", f, s)
	if err != nil {
		w.t.Fatal(err)
	}
	for _, key := range append(keys, "") {
		curve := w.c.shapeOf(v, key)
		for range 6 {
			for _, rows := range []int{1, 8, s.MaxBatchSize} {
				curve.Settle(curve.Begin(min(rows, s.MaxBatchSize)), cost(min(rows, s.MaxBatchSize)))
			}
		}
	}
	w.costs, w.used = append(w.costs, cost), append(w.used, 0)
	return v
}

// ask has a crowd ask from its time on.
func (w *waiting) ask(of crowd) *crowd {
	for i := range of.n {
		w.coming = append(w.coming, waitingCaller{&of, of.from + Time(i)})
	}
	return &of
}

// until plays until a time.
func (w *waiting) until(end Time) {
	for w.now < end {
		next, first := w.c.NextWake(), -1
		if len(w.runs) > 0 {
			next = min(next, w.runs[0].ends)
		}
		for i, k := range w.coming {
			if k.at <= next && (first < 0 || k.at < w.coming[first].at) {
				first = i
			}
		}
		switch {
		case first >= 0:
			k := w.coming[first]
			w.coming = slices.Delete(w.coming, first, first+1)
			w.now = max(w.now, k.at)
			task := Task{Rows: 1, Key: k.of.key, ShapeKey: k.of.key, Target: k.of.target}
			h, _, err := w.c.Submit(w.now, k.of.version, &task, Never, nil)
			if err != nil {
				w.t.Fatal(err)
			}
			w.asked[h] = waitingCaller{k.of, w.now}
			if k.of.open {
				w.coming = append(w.coming, waitingCaller{k.of, k.at.Add(k.of.again())})
			}
		case len(w.runs) > 0 && next == w.runs[0].ends:
			w.end()
		default:
			w.now = max(w.now, next)
			w.c.Advance(w.now, nil)
		}
		w.start()
	}
}

// end ends the first batch that runs.
func (w *waiting) end() {
	r := w.runs[0]
	w.runs, w.now = w.runs[1:], r.ends
	for i, s := range r.Spans {
		k := w.asked[s.Task()]
		delete(w.asked, s.Task())
		k.of.took = append(k.of.took, w.now.Sub(k.at))
		switch {
		case k.of.open:
		case k.of.again != nil:
			w.coming = append(w.coming, waitingCaller{k.of, w.now.Add(k.of.again())})
		default:
			w.coming = append(w.coming, waitingCaller{k.of, w.now.Add(k.of.pause + time.Duration(i)*k.of.pause/32)})
		}
	}
	took := w.costs[r.Version](r.Rows)
	w.used[r.Version] += took
	w.c.Settle(w.now, r.lane, r.Batch, Report{DeviceTime: took}, nil)
}

// start starts what the free lanes may start. A batch that was handed over early waits for the end of the one before.
func (w *waiting) start() {
	for lane := range LaneID(w.device.Lanes) {
		if slices.ContainsFunc(w.runs, func(r waitingRun) bool { return r.lane == lane }) {
			continue
		}
		b := &Batch{}
		if ok, _ := w.c.Next(w.now, lane, b, nil); ok {
			begins := w.now
			if len(w.runs) > 0 {
				begins = w.runs[len(w.runs)-1].ends
			}
			w.runs = append(w.runs, waitingRun{b, lane, begins.Add(w.costs[b.Version](b.Rows))})
		}
	}
}

// fixed is the cost of executions that take ten milliseconds, whatever their rows.
func fixed(int) time.Duration { return 10 * time.Millisecond }

// TestNobodyStarvesBesideCallersWhoWait: callers who wait and name a target ask for about their parts, now for more and
// now for less, so that one of them is within its share at any time. A flow that asks for more than its own, and names
// no time, still gets its part.
func TestNobodyStarvesBesideCallersWhoWait(t *testing.T) {
	for _, others := range []int{2, 4, 6} {
		for _, each := range []int{1, 4} {
			w := newWaiting(t, Device{Name: "d", Lanes: 1}, Variant{})
			for range others {
				w.ask(crowd{n: each, target: time.Second / 2, version: w.add(1, Settings{MaxBatchSize: 1}, fixed)})
			}
			last := w.ask(crowd{n: 8, from: Time(time.Second), version: w.add(1, Settings{MaxBatchSize: 1}, fixed)})
			w.until(Time(100 * time.Second))
			if part := w.used[last.version].Seconds() / 100 * float64(others+1); part < 0.9 {
				t.Errorf("beside %d flows of %d callers each a flow has %.2f of its part", others, each, part)
			}
		}
	}
}

// TestCreditIsNoneOfAForeignWeight: the batch of a flow of next to no weight advances its tag by minutes. Who comes
// while it runs has not waited for minutes, and lets another flow of his own weight have its part at once.
func TestCreditIsNoneOfAForeignWeight(t *testing.T) {
	for _, weight := range []float64{1, 0.1, 0.01, 0.001} {
		w := newWaiting(t, Device{Name: "d", Lanes: 1}, Variant{})
		cost := func(rows int) time.Duration { return 10*time.Millisecond + time.Duration(rows)*time.Millisecond }
		s := Settings{Batched: true, MaxBatchSize: 32}
		light := w.ask(crowd{n: 400, pause: time.Millisecond / 10, version: w.add(weight, s, cost)})
		heavy := w.ask(crowd{n: 400, pause: time.Millisecond / 10, version: w.add(1, s, cost)})
		v := w.add(1, s, cost, "a", "b")
		w.until(Time(20 * time.Second))
		for len(w.runs) == 0 || w.runs[0].Version != light.version {
			w.until(w.now + 1)
		}
		for _, key := range []string{"a", "b"} {
			w.ask(crowd{n: 4, pause: time.Millisecond / 2, version: v, key: key, from: w.now})
		}
		before := w.used[heavy.version]
		w.until(w.now.Add(5 * time.Second))
		if got := w.used[heavy.version] - before; got < time.Second {
			t.Errorf("beside a flow of weight %v and one that just came a flow has %v of 5 s", weight, got)
		}
	}
}

// TestAccountsAreBounded while versions with new names come and go; that of a version which stays is kept.
func TestAccountsAreBounded(t *testing.T) {
	settings := Settings{MaxBatchSize: 1, MaxBatchCost: time.Millisecond, MaxQueue: 1, MaxLatency: time.Second}
	c, err := NewCore(Config{Devices: []Device{{Name: "cpu", Class: "cpu", Lanes: 1}}})
	if err != nil {
		t.Fatal(err)
	}
	f, err := c.AddFlow("f", "cpu", 1)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.AddVersion("stays/1", f, settings); err != nil {
		t.Fatal(err)
	}
	c.accounts[[2]string{"stays/1", "cpu"}].Accepted = 7
	for n := range 3 * maxAccounts {
		v, err := c.AddVersion(fmt.Sprintf("m/%d", n), f, settings)
		if err != nil {
			t.Fatal(err)
		}
		c.RemoveVersion(0, v, nil)
	}
	all := c.State(0).Accounts
	if len(all) > maxAccounts || len(all) < 2 {
		t.Errorf("%d accounts, want up to %d", len(all), maxAccounts)
	}
	if last := all[len(all)-1]; last.Name != "stays/1" || last.Accepted != 7 {
		t.Errorf("the account of the version that stays is %+v", last)
	}
}
