package sharedsched

import (
	"testing"
	"time"
)

// TestFullQueueIsHeard: what a full queue refuses still counts as asked for. Else a flood of callers without limits
// would seem to ask for what it gets, and take the answers of others.
func TestFullQueueIsHeard(t *testing.T) {
	c, err := NewCore(Config{Devices: []Device{{Name: "d", Lanes: 1}}})
	if err != nil {
		t.Fatal(err)
	}
	const ms = time.Millisecond
	type source struct {
		version     VersionID
		base, row   time.Duration
		every, wish time.Duration
		next        Time
	}
	sources := [2]source{
		{base: ms, row: 3 * ms / 10, every: ms / 4, wish: 500 * ms}, // 4,000 a second: 1.2 of the device at least
		{base: ms, row: ms / 2, every: 5 * ms, wish: 20 * ms},
	}
	cost := func(s *source, rows int) time.Duration { return s.base + time.Duration(rows)*s.row }
	for i := range sources {
		s := &sources[i]
		f, err := c.AddFlow("f", "d", 1)
		if err != nil {
			t.Fatal(err)
		}
		s.version, err = c.AddVersion("v", f, Settings{Batched: true, MaxBatchSize: 256})
		if err != nil {
			t.Fatal(err)
		}
		curve := c.shapeOf(s.version, "")
		for _, rows := range []int{1, 16, 64, 256} {
			for range 6 {
				curve.Settle(curve.Begin(rows), cost(s, rows))
			}
		}
	}
	due := map[Handle]Time{}
	asked, inTime := 0, 0
	idle, end := true, Time(0)
	var b Batch
	for now := Time(0); now < Time(20*time.Second); {
		s := &sources[0]
		if sources[1].next < s.next {
			s = &sources[1]
		}
		if !idle && end <= s.next {
			now, idle = end, true
			_, acts := c.Settle(now, 0, &b, Report{DeviceTime: cost(&sources[b.Version], b.Rows)}, nil)
			for i := range acts {
				if by, ours := due[acts[i].Task]; ours && acts[i].End == EndDone && now <= by {
					inTime++
				}
				delete(due, acts[i].Task)
			}
		} else {
			now = s.next
			s.next = s.next.Add(s.every)
			h, _, err := c.Submit(now, s.version, &Task{Rows: 1, Target: s.wish}, Never, nil)
			if s == &sources[1] && now > Time(5*time.Second) {
				if asked++; err == nil {
					due[h] = now.Add(s.wish)
				}
			}
		}
		if idle {
			b = Batch{}
			if ok, _ := c.Next(now, 0, &b, nil); ok {
				idle, end = false, now.Add(cost(&sources[b.Version], b.Rows))
			}
		}
	}
	if share := float64(inTime) / float64(asked); asked < 1000 || share < 0.98 {
		t.Errorf("%.3f of %d requests within their share are on time beside a flood whose queue is full", share, asked)
	}
}
