package sharedsched

import (
	"testing"
	"time"
)

// TestLaneLearnsOfBatchesBesideAtOnce: a lane has work as soon as a batch grows so that it would be late at its turn.
// No later event would wake it.
func TestLaneLearnsOfBatchesBesideAtOnce(t *testing.T) {
	const ms = time.Millisecond
	c, err := NewCore(Config{Devices: []Device{{Name: "d", Lanes: 2, Handover: ms}}})
	if err != nil {
		t.Fatal(err)
	}
	add := func(perRow time.Duration, most int) VersionID {
		f, err1 := c.AddFlow("f", "d", 1)
		v, err2 := c.AddVersion("v", f, Settings{Batched: true, MaxBatchSize: most})
		if err1 != nil || err2 != nil {
			t.Fatal(err1, err2)
		}
		curve := c.shapeOf(v, "")
		for range 6 {
			curve.Settle(curve.Begin(1), perRow)
			curve.Settle(curve.Begin(most), perRow*time.Duration(most))
		}
		return v
	}
	submit := func(v VersionID, target time.Duration) {
		if _, _, err := c.Submit(0, v, &Task{Rows: 1, Target: target}, Never, nil); err != nil {
			t.Fatal(err)
		}
	}
	long, short := add(100*ms, 1), add(ms, 16)
	submit(long, time.Second)
	if ok, _ := c.Next(0, 0, &Batch{}, nil); !ok {
		t.Fatal("the long batch was not started")
	}
	submit(short, 110*ms)
	if c.HasWork(0, 1) {
		t.Fatal("one row that can wait for its turn starts beside the long batch")
	}
	for range 10 {
		submit(short, 110*ms)
	}
	if !c.HasWork(0, 1) {
		t.Error("eleven rows that cannot wait do not start beside the long batch")
	}
}
