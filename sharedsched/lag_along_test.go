package sharedsched

import (
	"testing"
	"time"
)

// TestLagBoundHoldsWhereBatchesAreShared has three flows ask for more than their shares: two identities of one version,
// and another version. The batches of the first have room for the tasks of the second, each time: did it get all of
// that, the third would get less than its own.
func TestLagBoundHoldsWhereBatchesAreShared(t *testing.T) {
	c, v := oneVersion(t, Settings{Batched: true, MaxBatchSize: 16, MaxQueue: 40})
	f, _ := c.AddFlow("other", "d", 1)
	other, err := c.AddVersion("other/1", f, Settings{Batched: true, MaxBatchSize: 16, MaxQueue: 40})
	if err != nil {
		t.Fatal(err)
	}
	for _, id := range []VersionID{v, other} {
		for range 3 {
			curve := c.shapeOf(id, "")
			curve.Settle(curve.Begin(1), time.Millisecond)
			curve.Settle(curve.Begin(16), 4*time.Millisecond)
		}
	}
	const ms = time.Millisecond
	watch, check := lagWatch{exact: true}, checker{}
	now, shared := Time(0), 0
	for range 4000 {
		for _, s := range []struct {
			version  VersionID
			identity string
			most     int
			target   time.Duration
		}{{v, "few", 1, 2 * ms}, {v, "many", 40, 10 * ms}, {other, "", 40, 10 * ms}} {
			task := Task{Rows: 1, Identity: s.identity, Target: s.target}
			for c.Room(s.version, s.identity) > 40-s.most {
				if _, _, err := c.Submit(now, s.version, &task, Never, nil); err != nil {
					t.Fatal(err)
				}
			}
		}
		for _, f := range c.flows { // as if all of them had asked for more than there is
			f.recent.asked, f.recent.began = float64(time.Second), 0
		}
		b := &Batch{}
		if ok, _ := c.Next(now, 0, b, nil); !ok {
			t.Fatal("work waits and none was started")
		}
		l := c.lanes[0]
		parts := lagParts(c, b)
		if len(parts) > 1 {
			shared++
		}
		for _, p := range parts {
			watch.started(c, p.flow.id, p.of(b, l.est.Cost))
		}
		if err := watch.check(c); err != nil {
			t.Fatal(err)
		}
		now = now.Add(l.est.Cost)
		used := l.est.Cost
		c.Settle(now, 0, b, Report{DeviceTime: used, Unusable: true}, nil)
		for _, p := range parts {
			watch.settled(c, p.flow.id, p.of(b, used), p.of(b, used))
		}
		if err := watch.check(c); err != nil {
			t.Fatal(err)
		}
	}
	if err := check.invariants(c); err != nil {
		t.Fatal(err)
	}
	if shared < 500 {
		t.Errorf("%d batches had rows of several flows: this proves little", shared)
	}
}
