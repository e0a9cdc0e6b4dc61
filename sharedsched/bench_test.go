package sharedsched

import (
	"context"
	"runtime"
	"sync"
	"testing"
	"time"
)

// BenchmarkCore measures a task's whole way through Core: admitted, picked in a batch of 16, settled.
func BenchmarkCore(b *testing.B) {
	const batch = 16
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
			Batched: true, MaxBatchSize: batch, MaxBatchCost: 100 * time.Millisecond, MaxQueue: 1000, MaxLatency: 10 * time.Second,
		})
		if err != nil {
			b.Fatal(err)
		}
		versions = append(versions, v)
	}
	var (
		now  Time
		acts []Action
		out  Batch
		task = Task{Rows: 1, Bytes: 192}
	)
	cycle := func(turn int) {
		for range batch {
			now += 1000
			if _, err := c.Submit(now, versions[turn%len(versions)], &task, Never); err != nil {
				b.Fatal(err)
			}
		}
		for c.HasWork(0) {
			_, acts = c.Next(now, 0, &out, acts[:0])
			now += 100_000
			_, acts = c.Settle(now, 0, &out, Report{}, acts[:0])
		}
	}
	for turn := range 100 {
		cycle(turn)
	}
	b.ReportAllocs()
	for turn := 0; b.Loop(); turn++ {
		cycle(turn)
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/batch, "ns/task")
}

// nothing is an Executor that does nothing, but lets other goroutines run meanwhile, as any execution does: else callers and
// batch thread would take turns and no batch would ever form.
type nothing struct{ batches int }

func (n *nothing) Execute(*Batch) Report {
	n.batches++
	runtime.Gosched()
	return Report{DeviceTime: time.Microsecond}
}

// BenchmarkHandOff compares a call through the shell with the least that any such shell must do: hand a value to another
// goroutine through a mutex-guarded queue, in batches of up to 16, and get the answer through a channel unless a context ends.
func BenchmarkHandOff(b *testing.B) {
	b.Run("scheduler", func(b *testing.B) {
		exec := &nothing{}
		s, err := New(Config{Devices: []Device{{Name: "cpu", Class: "cpu", Lanes: 1}}}, exec, nil)
		if err != nil {
			b.Fatal(err)
		}
		f, _ := s.AddFlow("a", "cpu", 1)
		v, err := s.AddVersion("a/1", f, Settings{Batched: true, MaxBatchSize: 16, MaxQueue: 1000, MaxLatency: 10 * time.Second})
		if err != nil {
			b.Fatal(err)
		}
		b.ReportAllocs()
		b.SetParallelism(32)
		b.RunParallel(func(pb *testing.PB) {
			task := &Task{Rows: 1, Bytes: 192}
			ctx, cancel := context.WithCancel(context.Background())
			defer cancel()
			for pb.Next() {
				if _, err := s.Do(ctx, v, task); err != nil {
					b.Error(err)
				}
			}
		})
		s.Close()
		b.ReportMetric(float64(b.N)/float64(exec.batches), "tasks/batch")
	})
	b.Run("mutex-and-channel", func(b *testing.B) {
		var (
			mu    sync.Mutex
			queue []chan struct{}
			wake  = make(chan struct{}, 1)
			stop  = make(chan struct{})
			done  = make(chan struct{})
		)
		go func() {
			defer close(done)
			var batch []chan struct{}
			for {
				runtime.Gosched()
				mu.Lock()
				n := min(16, len(queue))
				batch = append(batch[:0], queue[:n]...)
				queue = queue[:copy(queue, queue[n:])]
				mu.Unlock()
				for _, c := range batch {
					c <- struct{}{}
				}
				if len(batch) > 0 {
					continue
				}
				select {
				case <-wake:
				case <-stop:
					return
				}
			}
		}()
		b.ReportAllocs()
		b.SetParallelism(32)
		b.RunParallel(func(pb *testing.PB) {
			answer := make(chan struct{}, 1)
			ctx, cancel := context.WithCancel(context.Background())
			defer cancel()
			for pb.Next() {
				mu.Lock()
				queue = append(queue, answer)
				mu.Unlock()
				select {
				case wake <- struct{}{}:
				default:
				}
				select {
				case <-answer:
				case <-ctx.Done():
				}
			}
		})
		close(stop)
		<-done
	})
}
