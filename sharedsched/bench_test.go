package sharedsched

import (
	"context"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// BenchmarkCore measures a task's whole way through Core: admitted, picked in a batch, settled.
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

// nothing is an Executor that does nothing, but lets other goroutines run meanwhile, as any execution does: else
// callers and batch thread would take turns and no batch would ever form.
type nothing struct{ batches int }

func (n *nothing) Execute(*Batch) Report {
	n.batches++
	runtime.Gosched()
	return Report{DeviceTime: time.Microsecond}
}

// BenchmarkHandOff compares a call through the shell with the least that any such shell must do: hand a value to
// another goroutine through a mutex-guarded queue, in batches of up to 16, and get the answer through a channel unless
// a context ends. What the shell itself costs is the call less Core's part of it, BenchmarkCore with batches of 1 and
// of 16.
func BenchmarkHandOff(b *testing.B) {
	for _, callers := range []int{1, 64} {
		b.Run(fmt.Sprintf("scheduler/callers=%d", callers), func(b *testing.B) { handOffThroughScheduler(b, callers) })
		b.Run(fmt.Sprintf("mutex-and-channel/callers=%d", callers), func(b *testing.B) { handOffBare(b, callers) })
	}
}

// share has b.N calls made by some callers, each with a context that it may end.
func share(b *testing.B, callers int, call func(context.Context)) {
	b.Helper()
	var left atomic.Int64
	left.Store(int64(b.N))
	b.ReportAllocs()
	b.ResetTimer()
	var wg sync.WaitGroup
	for range callers {
		wg.Go(func() {
			ctx, cancel := context.WithCancel(context.Background())
			defer cancel()
			for left.Add(-1) >= 0 {
				call(ctx)
			}
		})
	}
	wg.Wait()
	b.StopTimer()
}

func handOffThroughScheduler(b *testing.B, callers int) {
	exec := &nothing{}
	s, err := New(Config{Devices: []Device{{Name: "cpu", Class: "cpu", Lanes: 1}}}, exec, nil)
	if err != nil {
		b.Fatal(err)
	}
	f, err := s.AddFlow("a", "cpu", 1)
	if err != nil {
		b.Fatal(err)
	}
	v, err := s.AddVersion("a/1", f,
		Settings{Batched: true, MaxBatchSize: 16, MaxQueue: 1000, MaxLatency: 10 * time.Second})
	if err != nil {
		b.Fatal(err)
	}
	task := &Task{Rows: 1, Bytes: 192}
	share(b, callers, func(ctx context.Context) {
		if _, err := s.Do(ctx, v, task); err != nil {
			b.Error(err)
		}
	})
	s.Close()
	b.ReportMetric(float64(b.N)/float64(exec.batches), "tasks/batch")
}

func handOffBare(b *testing.B, callers int) {
	var (
		mu    sync.Mutex
		queue []chan struct{}
		wake  = make(chan struct{}, 1)
		stop  = make(chan struct{})
		pool  = sync.Pool{New: func() any { return make(chan struct{}, 1) }}
		done  sync.WaitGroup
	)
	done.Go(func() {
		var batch []chan struct{}
		for {
			mu.Lock()
			n := min(16, len(queue))
			batch = append(batch[:0], queue[:n]...)
			queue = queue[:copy(queue, queue[n:])]
			mu.Unlock()
			if n > 0 {
				runtime.Gosched() // as nothing does
				for _, c := range batch {
					c <- struct{}{}
				}
				continue
			}
			select {
			case <-wake:
			case <-stop:
				return
			}
		}
	})
	share(b, callers, func(ctx context.Context) {
		answer := pool.Get().(chan struct{})
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
		pool.Put(answer)
	})
	close(stop)
	done.Wait()
}
