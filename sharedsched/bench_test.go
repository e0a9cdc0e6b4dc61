package sharedsched

import (
	"fmt"
	"testing"
	"time"
)

// BenchmarkCore measures the whole life of a task in Core: admitted, picked in a batch, settled.
func BenchmarkCore(b *testing.B) {
	for _, batch := range []int{1, 16} {
		b.Run(fmt.Sprintf("batch=%d", batch), func(b *testing.B) { throughCore(b, batch) })
	}
}

func throughCore(b *testing.B, batch int) {
	c, err := NewCore(Config{Devices: []Device{{Name: "cpu", Class: "cpu", Lanes: 1}}})
	if err != nil {
		b.Fatal(err)
	}
	var versions []VersionID
	for _, name := range []string{"a/1", "a/2", "b/1", "b/2"} {
		f, err := c.AddFlow(name, "cpu", 1)
		if err != nil {
			b.Fatal(err)
		}
		v, err := c.AddVersion(name, f, Settings{
			Batched: true, MaxBatchSize: batch, MaxBatchCost: 100 * time.Millisecond, MaxQueue: 1000,
			MaxLatency: 10 * time.Second,
		})
		if err != nil {
			b.Fatal(err)
		}
		versions = append(versions, v)
	}
	var (
		now  Time
		out  Batch
		task = Task{Rows: 1, Bytes: 192}

		answer Answer
		submit = Event{Kind: EventSubmit, Task: &task, Limit: Never}
		next   = Event{Kind: EventNext, Batch: &out}
		settle = Event{Kind: EventSettle, Batch: &out, Report: &Report{}}
	)
	step := func(ev *Event) {
		answer.Actions = answer.Actions[:0]
		if err := c.Step(now, ev, &answer); err != nil {
			b.Fatal(err)
		}
	}
	cycle := func(turn int) {
		submit.Version = versions[turn%len(versions)]
		for range batch {
			now += 1000
			step(&submit)
		}
		for c.HasWork(now, 0) {
			step(&next)
			now += 100_000
			step(&settle)
		}
	}
	for turn := range 100 {
		cycle(turn)
	}
	b.ReportAllocs()
	for turn := 0; b.Loop(); turn++ {
		cycle(turn)
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(batch), "ns/task")
}
