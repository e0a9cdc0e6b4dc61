package sharedsched

import (
	"testing"
	"time"
)

// TestTasksThatRunAloneHaveOneShare: of three identities with as many callers each, the one whose tasks all run alone,
// as those of proofs do, gets no more of the device than the others.
func TestTasksThatRunAloneHaveOneShare(t *testing.T) {
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
	for range 6 {
		curve := c.shapeOf(v, "")
		curve.Settle(curve.Begin(1), takes)
	}
	now := Time(0)
	whose := map[Handle]string{}
	ask := func(who string) {
		h, _, err := c.Submit(now, v, &Task{Rows: 1, Identity: who, Alone: who == "alone"}, Never, nil)
		if err != nil {
			t.Fatal(err)
		}
		whose[h] = who
	}
	for range 20 {
		ask("a")
		ask("b")
		ask("alone")
	}
	ran := map[string]int{}
	for now < Time(20*time.Second) {
		b := &Batch{}
		if ok, _ := c.Next(now, 0, b, nil); !ok {
			now = c.NextWake() // it waits for callers
			c.Advance(now, nil)
			continue
		}
		now = now.Add(takes)
		h := b.Spans[0].Task()
		c.Settle(now, 0, b, Report{DeviceTime: takes}, nil)
		ran[whose[h]]++
		ask(whose[h])
		delete(whose, h)
	}
	if all := ran["a"] + ran["b"] + ran["alone"]; 10*ran["alone"] > 4*all || 10*min(ran["a"], ran["b"]) < 2*all {
		t.Errorf("executions by identity: %v", ran)
	}
}
