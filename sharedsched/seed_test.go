package sharedsched

import (
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// These are behaviours of other systems that docs/MIGRATING.md maps to ours and that neither a scenario nor another
// test states.

// TestPaddingPolicies: what the first batch holds, and as how many rows it runs. The costs are those that TensorFlow's
// batching library states the policies with.
func TestPaddingPolicies(t *testing.T) {
	costs := map[int]time.Duration{2: 2 * time.Second, 4: 3100 * time.Millisecond}
	cheap := map[int]time.Duration{2: 2 * time.Second, 4: 2900 * time.Millisecond}
	for _, tt := range []struct {
		name    string
		policy  PaddingPolicy
		allowed []int
		costs   map[int]time.Duration
		tasks   []int // rows of each
		rows    int   // of the first batch
		padded  int
	}{
		{"pad_up", PadUp, []int{1, 2, 4, 8}, nil, []int{1, 1, 1}, 3, 4},
		{"batch_down leaves a row", BatchDown, []int{1, 2, 4, 8}, nil, []int{1, 1, 1}, 2, 2},
		{"batch_down with an allowed number", BatchDown, []int{1, 2, 4, 8}, nil, []int{1, 1, 1, 1}, 4, 4},
		{"batch_down with no smaller size", BatchDown, []int{4, 8}, nil, []int{1, 1, 1}, 3, 4},
		{"minimize_cost: 2 s for two rows or 3.1 s for three", MinimizeCost, []int{2, 4}, costs, []int{1, 1, 1}, 2, 2},
		{"minimize_cost: 2 s for two rows or 2.9 s for three", MinimizeCost, []int{2, 4}, cheap, []int{1, 1, 1}, 3, 4},
		{"batch_down would cut a request", BatchDown, []int{2, 4, 8}, nil, []int{1, 2}, 3, 4},
		{"minimize_cost would cut a request", MinimizeCost, []int{2, 4}, costs, []int{1, 2}, 3, 4},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c, v := oneVersion(t, Settings{
				Batched: true, MaxBatchSize: tt.allowed[len(tt.allowed)-1], MaxQueue: 100,
				AllowedBatchSizes: tt.allowed, Padding: tt.policy,
			})
			if tt.costs == nil {
				tt.costs = map[int]time.Duration{1: time.Millisecond, 8: time.Millisecond}
			}
			curve := c.version(v).shape("", 0, &c.devices[0].state)
			for rows, cost := range tt.costs {
				for range 3 {
					curve.Settle(curve.Begin(rows), cost)
				}
			}
			for _, rows := range tt.tasks {
				if _, _, err := c.Submit(0, v, &Task{Rows: rows}, Never, nil); err != nil {
					t.Fatal(err)
				}
			}
			var b Batch
			if ok, _ := c.Next(0, 0, &b, nil); !ok || b.Rows != tt.rows || b.Padded != tt.padded {
				t.Errorf("started %v: %d rows as %d, want %d as %d", ok, b.Rows, b.Padded, tt.rows, tt.padded)
			}
		})
	}
}

// line is an Executor whose batches take base and a millisecond for each row.
type line struct{ base atomic.Int64 }

func (l *line) Execute(b *Batch) Report {
	took := time.Duration(l.base.Load()) + time.Duration(b.Padded)*time.Millisecond
	time.Sleep(took)
	return Report{DeviceTime: took}
}

// TestBatchSizeFollowsTraffic: nothing but the traffic and what executions take decides how large batches are and how
// long requests wait. An execution of n rows takes base + n ms; where r requests come in a millisecond, the batch that
// serves what came during the one before has n = r·(base + n) rows.
func TestBatchSizeFollowsTraffic(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		exec := &line{}
		s, v := shell(t, 1, exec, Settings{
			Batched: true, MaxBatchSize: 100, MaxBatchCost: 100 * time.Millisecond, Adaptive: true, MaxQueue: 1000,
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
					out, err := s.Do(t.Context(), v, &Task{Rows: 1})
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

// TestNobodyWaitsForMemory: where callers wait for a full queue, one whose bytes find no room is refused all the same.
func TestNobodyWaitsForMemory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, err := New(Config{Devices: []Device{{Name: "d", Lanes: 1}}, MaxQueuedBytes: 100}, &line{}, nil)
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		f, _ := s.AddFlow("m", "d", 1)
		v, err := s.AddVersion("m/1", f, Settings{MaxBatchSize: 1, MaxQueue: 10, WaitWhenFull: true})
		if err != nil {
			t.Fatal(err)
		}
		var wg sync.WaitGroup
		for range 2 { // one runs, one waits
			wg.Go(func() {
				if _, err := s.Do(t.Context(), v, &Task{Rows: 1, Bytes: 60}); err != nil {
					t.Error(err)
				}
			})
			synctest.Wait()
		}
		_, err = s.Do(t.Context(), v, &Task{Rows: 1, Bytes: 60})
		if r, ok := errors.AsType[*Refusal](err); !ok || r.Reason != RefusedQueueFull || r.QueuedBytes != 60 {
			t.Errorf("60 bytes more where 60 of 100 wait: %v", err)
		}
		wg.Wait()
	})
}
