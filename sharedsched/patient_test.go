package sharedsched

import (
	"testing"
	"time"
)

// TestPatientCallersAreAllAnswered: where callers wait for their answers before they ask again, however many they are,
// each is answered in his turn.
func TestPatientCallersAreAllAnswered(t *testing.T) {
	for i, n := range []int{64, 400, 900, 64, 400, 900} {
		growing := i >= 3
		const takes = 5 * time.Millisecond
		c, err := NewCore(Config{Devices: []Device{{Name: "d", Lanes: 1}}})
		if err != nil {
			t.Fatal(err)
		}
		f, err := c.AddFlow("f", "d", 1)
		if err != nil {
			t.Fatal(err)
		}
		v, err := c.AddVersion("v", f, Settings{MaxBatchSize: 1})
		if err != nil {
			t.Fatal(err)
		}
		curve := c.shapeOf(v, "")
		for range 6 {
			curve.Settle(curve.Begin(1), takes)
		}
		now, slowest := Time(0), time.Duration(0)
		asked := map[Handle]Time{}
		ask := func() {
			h, _, err := c.Submit(now, v, &Task{Rows: 1}, Never, nil)
			if err != nil {
				t.Fatal(err)
			}
			asked[h] = now
		}
		came := n
		if growing {
			came = 1
		}
		for range came {
			ask()
		}
		for now < Time(30*time.Second) {
			b := &Batch{}
			if ok, _ := c.Next(now, 0, b, nil); !ok {
				t.Fatal("work waits and none was started")
			}
			now = now.Add(takes)
			h := b.Spans[0].Task()
			c.Settle(now, 0, b, Report{DeviceTime: takes}, nil)
			slowest = max(slowest, now.Sub(asked[h]))
			delete(asked, h)
			ask()
			if came < n {
				ask()
				came++
			}
		}
		for _, at := range asked {
			slowest = max(slowest, now.Sub(at))
		}
		most := 6 * time.Duration(n) * takes / 5
		if growing { // it may be taken for a flood until they all are there
			most += lately
		}
		if slowest > most {
			t.Errorf("%d callers, growing %v: the slowest answer takes %v, want at most %v", n, growing, slowest, most)
		}
	}
}
