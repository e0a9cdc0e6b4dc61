package shell

import (
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weftserve/weft/sharedsched"
)

// These are behaviours of other systems that docs/migrate/README.md maps to ours and that neither a scenario nor
// another test states.

// line is an Executor whose batches take base and a millisecond for each row.
type line struct{ base atomic.Int64 }

func (l *line) Execute(b *sharedsched.Batch) sharedsched.Report {
	took := time.Duration(l.base.Load()) + time.Duration(b.Padded)*time.Millisecond
	time.Sleep(took)
	return sharedsched.Report{DeviceTime: took}
}

// TestBatchSizeFollowsTraffic: only the traffic and the cost of executions decide how large batches are and how long
// requests wait. An execution of n rows takes base + n ms; where r requests come in a millisecond, the batch that
// serves the arrivals during the one before has n = r·(base + n) rows.
func TestBatchSizeFollowsTraffic(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		exec := &line{}
		s, v := shell(t, 1, exec, sharedsched.Settings{
			Batched: true, MaxBatchSize: 100, MaxBatchCost: 100 * time.Millisecond, MaxQueue: 1000,
			MaxLatency: 10 * time.Second,
		})
		for _, phase := range []struct {
			name        string
			base, every time.Duration
			rows        [2]float64 // least and most of the mean batch
			wait        time.Duration
		}{
			{"20 requests a second", 20 * time.Millisecond, 50 * time.Millisecond, [2]float64{1, 1}, 0},
			{
				"400 requests a second: n = 13.3", 20 * time.Millisecond, 2500 * time.Microsecond,
				[2]float64{13, 14},
				34 * time.Millisecond,
			},
			{
				"on a device half as fast but for rows: n = 26.7", 40 * time.Millisecond, 2500 * time.Microsecond,
				[2]float64{25, 28},
				68 * time.Millisecond,
			},
			{"20 requests a second again", 20 * time.Millisecond, 50 * time.Millisecond, [2]float64{1, 1}, 0},
		} {
			exec.base.Store(int64(phase.base))
			var mu sync.Mutex
			var longest time.Duration // in the queue
			requests, batches := 0, 0.0
			var wg sync.WaitGroup
			const settling = time.Second
			for start := time.Now(); time.Since(start) < 4*time.Second; time.Sleep(phase.every) {
				settled := time.Since(start) >= settling
				wg.Go(func() {
					out, err := s.Do(t.Context(), v, &sharedsched.Task{Rows: 1})
					if err != nil {
						t.Errorf("%s: %v", phase.name, err)
						return
					}
					mu.Lock()
					defer mu.Unlock()
					if settled {
						requests++
						batches += 1 / float64(out.BatchRequests)
						longest = max(longest, out.Queue)
					}
				})
			}
			wg.Wait()
			if mean := float64(requests) / batches; mean < phase.rows[0] || mean > phase.rows[1] {
				t.Errorf("%s: %.1f rows in the mean batch, want %v", phase.name, mean, phase.rows)
			}
			if longest > phase.wait {
				t.Errorf("%s: a request waited for %v, want at most %v", phase.name, longest, phase.wait)
			}
		}
		s.Close()
	})
}

// TestNobodyWaitsForMemory: where callers wait for a full queue, one whose bytes find no room is still refused.
func TestNobodyWaitsForMemory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := sharedsched.Config{Devices: []sharedsched.Device{{Name: "d", Lanes: 1}}, MaxQueuedBytes: 100}
		s, err := New(cfg, &line{}, Options{})
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		f, _ := s.AddFlow("m", "d", 1)
		v, err := s.AddVersion("m/1", f, sharedsched.Settings{MaxBatchSize: 1, MaxQueue: 10, WaitWhenFull: true})
		if err != nil {
			t.Fatal(err)
		}
		var wg sync.WaitGroup
		for range 2 { // one runs, one waits
			wg.Go(func() {
				if _, err := s.Do(t.Context(), v, &sharedsched.Task{Rows: 1, Bytes: 60}); err != nil {
					t.Error(err)
				}
			})
			synctest.Wait()
		}
		_, err = s.Do(t.Context(), v, &sharedsched.Task{Rows: 1, Bytes: 60})
		r, ok := errors.AsType[*sharedsched.Refusal](err)
		if !ok || r.Reason != sharedsched.RefusedQueueFull || r.QueuedBytes != 60 {
			t.Errorf("60 bytes more where 60 of 100 wait: %v", err)
		}
		wg.Wait()
	})
}
