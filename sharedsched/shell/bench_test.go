package shell

import (
	"context"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weftserve/weft/sharedsched"
)

// nothing is an Executor that does nothing, but lets other goroutines run meanwhile, as any execution does: else
// callers and batch thread would take turns and no batch would ever form.
type nothing struct{ batches int }

func (n *nothing) Execute(*sharedsched.Batch) sharedsched.Report {
	n.batches++
	runtime.Gosched()
	return sharedsched.Report{DeviceTime: time.Microsecond}
}

// BenchmarkHandOff compares a call through the shell with the least that any such shell must do: hand a value to
// another goroutine through a mutex-guarded queue, in batches of up to 16, and get the answer through a channel unless
// a context ends. The cost of the shell itself is the call less Core's part of it, BenchmarkCore of sharedsched with
// batches of 1 and of 16.
func BenchmarkHandOff(b *testing.B) {
	for _, callers := range []int{1, 64} {
		b.Run(fmt.Sprintf("scheduler/callers=%d", callers), func(b *testing.B) { handOffThroughScheduler(b, callers) })
		b.Run(fmt.Sprintf("mutex-and-channel/callers=%d", callers), func(b *testing.B) { handOffBare(b, callers) })
	}
}

// share makes b.N calls from some callers, each with a context that it may end.
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
	cfg := sharedsched.Config{Devices: []sharedsched.Device{{Name: "cpu", Class: "cpu", Lanes: 1}}}
	s, err := New(cfg, exec, Options{})
	if err != nil {
		b.Fatal(err)
	}
	f, err := s.AddFlow("a", "cpu", 1)
	if err != nil {
		b.Fatal(err)
	}
	v, err := s.AddVersion("a/1", f,
		sharedsched.Settings{Batched: true, MaxBatchSize: 16, MaxQueue: 1000, MaxLatency: 10 * time.Second})
	if err != nil {
		b.Fatal(err)
	}
	task := &sharedsched.Task{Rows: 1, Bytes: 192}
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
