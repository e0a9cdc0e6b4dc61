package sharedsched

import (
	"fmt"
	"strconv"
	"testing"
	"time"
)

// BenchmarkScale measures the cost of a task, a pick and the end of a batch with many queues that all have work: one
// queue for each flow, or 256 keys for each version. Queues are demanding, since each task is a full batch, or pending,
// since their targets are far away. Costs are known and stay as they are: the time that the cost model takes to learn
// is measured in its own package.
func BenchmarkScale(b *testing.B) {
	for _, queues := range []int{10, 1000, 10_000, 100_000} {
		for _, keys := range []int{1, 256} {
			for _, state := range []stage{demanding, pending} {
				if keys > queues {
					continue
				}
				b.Run(fmt.Sprintf("queues=%d/keys=%d/%v", queues, keys, state),
					func(b *testing.B) { scale(b, queues, keys, state) })
			}
		}
	}
}

func scale(b *testing.B, queues, keys int, state stage) {
	const lanes = 8 // so that several picks can be timed together
	c, err := NewCore(Config{Devices: []Device{{Name: "d", Lanes: lanes}}})
	if err != nil {
		b.Fatal(err)
	}
	s := Settings{
		Batched: true, MaxBatchSize: 1, MaxQueue: 1000, MaxLatency: time.Hour, TargetLatency: time.Minute,
	}
	if state == pending {
		s.MaxBatchSize = 8
	}
	var now Time
	names := make([]string, keys)
	for k := range names {
		names[k] = strconv.Itoa(k)
	}
	var tasks [][]Task // by version
	for i := range queues / keys {
		tasks = append(tasks, nil)
		f, err := c.AddFlow("f", "d", 1)
		if err != nil {
			b.Fatal(err)
		}
		v, err := c.AddVersion("v", f, s)
		if err != nil {
			b.Fatal(err)
		}
		for _, name := range names {
			task := Task{Rows: 1, Key: name, ShapeKey: name, Bytes: 192}
			curve := c.shapeOf(v, name)
			for _, rows := range []int{1, s.MaxBatchSize} {
				for range 12 { // the window of samples is full, so that highs stay
					curve.Settle(curve.Begin(rows), time.Millisecond)
				}
			}
			now += 1000
			tasks[i] = append(tasks[i], task)
			if _, _, err := c.Submit(now, v, &task, Never, nil); err != nil {
				b.Fatal(err)
			}
		}
	}
	var (
		spent   [3]time.Duration // submitting, picking, settling
		batches [lanes]Batch
		rng     uint32
		done    int
		answer  Answer
	)
	step := func(ev Event) {
		answer.Actions = answer.Actions[:0]
		if err := c.Step(now, &ev, &answer); err != nil {
			b.Fatal(err)
		}
	}
	report := Report{DeviceTime: time.Millisecond, Unusable: state == pending}
	cycle := func() {
		at := time.Now()
		for l := range LaneID(lanes) {
			now += 10_000
			step(Event{Kind: EventNext, Lane: l, Batch: &batches[l]})
		}
		picked := time.Now()
		for l := range LaneID(lanes) {
			now += 100_000
			step(Event{Kind: EventSettle, Lane: l, Batch: &batches[l], Report: &report})
		}
		settled := time.Now()
		for l := range batches {
			of := tasks[batches[l].Version]
			for range batches[l].Spans {
				now += 1000
				rng = rng*1664525 + 1013904223
				step(Event{
					Kind: EventSubmit, Version: batches[l].Version, Task: &of[int(rng>>8)%len(of)],
					Limit: Never,
				})
				done++
			}
		}
		spent[1] += picked.Sub(at)
		spent[2] += settled.Sub(picked)
		spent[0] += time.Since(settled)
	}
	for range 1000 + queues/lanes {
		cycle()
	}
	spent, done = [3]time.Duration{}, 0
	b.ReportAllocs()
	for b.Loop() {
		cycle()
	}
	picks := float64(b.N) * lanes
	b.ReportMetric(float64(spent[0].Nanoseconds())/float64(done), "ns/submit")
	b.ReportMetric(float64(spent[1].Nanoseconds())/picks, "ns/pick")
	b.ReportMetric(float64(spent[2].Nanoseconds())/picks, "ns/settle")
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(done), "ns/task")
}
