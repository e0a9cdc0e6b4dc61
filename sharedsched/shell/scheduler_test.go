package shell

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/weftserve/weft/sharedsched"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// curve is an Executor whose batches take base plus perRow a row of virtual time, and fail where the payload says so.
type curve struct {
	base, perRow time.Duration

	mu      sync.Mutex
	batches []int // guarded by mu; tasks of each execution
	running int   // guarded by mu
	most    int   // guarded by mu; the largest number of batches ever in flight
}

var errBad = errors.New("bad input")

func (c *curve) Execute(b *sharedsched.Batch) sharedsched.Report {
	c.mu.Lock()
	c.batches = append(c.batches, len(b.Spans))
	c.running++
	c.most = max(c.most, c.running)
	c.mu.Unlock()
	time.Sleep(c.base + time.Duration(b.Padded)*c.perRow)
	c.mu.Lock()
	c.running--
	c.mu.Unlock()
	for i := range b.Spans {
		if b.Spans[i].Payload == "bad" {
			b.Spans[i].Err = errBad
		}
	}
	return sharedsched.Report{}
}

// shell returns a scheduler with one device and one version, closed at the end of the test.
func shell(t *testing.T, lanes int, exec Executor, s sharedsched.Settings) (*Scheduler, sharedsched.VersionID) {
	t.Helper()
	cfg := sharedsched.Config{Devices: []sharedsched.Device{{Name: "d", Class: "d", Lanes: lanes}}}
	sched, err := New(cfg, exec, Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(sched.Close)
	f, err := sched.AddFlow("m/1", "d", 1)
	if err != nil {
		t.Fatal(err)
	}
	v, err := sched.AddVersion("m/1", f, s)
	if err != nil {
		t.Fatal(err)
	}
	return sched, v
}

func batched() sharedsched.Settings {
	return sharedsched.Settings{Batched: true, MaxBatchSize: 16, MaxQueue: 100}
}

// do submits n tasks at once and returns their errors in order once all have ended.
func do(ctx context.Context, s *Scheduler, v sharedsched.VersionID, n int, payload any) []error {
	errs := make([]error, n)
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() { _, errs[i] = s.Do(ctx, v, &sharedsched.Task{Rows: 1, Payload: payload}) })
	}
	wg.Wait()
	return errs
}

func TestEveryCallerGetsAnAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		exec := &curve{base: time.Millisecond}
		s, v := shell(t, 1, exec, batched())
		for i, err := range do(t.Context(), s, v, 100, nil) {
			if err != nil {
				t.Errorf("call %d: %v", i, err)
			}
		}
		if n := len(exec.batches); n < 100/16 || n > 50 {
			t.Errorf("100 calls took %d batches of at most 16: %v", n, exec.batches)
		}
		if exec.most != 1 {
			t.Errorf("%d batches were in flight on one lane", exec.most)
		}
		s.Close()
	})
}

func TestOutcomeTellsTheTimes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, v := shell(t, 1, &curve{base: 10 * time.Millisecond}, batched())
		var wg sync.WaitGroup
		wg.Go(func() { s.Do(t.Context(), v, &sharedsched.Task{Rows: 1}) })
		synctest.Wait()
		time.Sleep(4 * time.Millisecond)
		out, err := s.Do(t.Context(), v, &sharedsched.Task{Rows: 3})
		wg.Wait()
		if err != nil {
			t.Fatal(err)
		}
		want := sharedsched.Outcome{
			Queue: 6 * time.Millisecond, Compute: 10 * time.Millisecond, DeviceTime: 10 * time.Millisecond,
			Device: "d", Reason: sharedsched.FlushDeviceIdle, BatchRequests: 1, BatchRows: 3, Executions: 1,
			Batch: 2, Ended: sharedsched.Time(20 * time.Millisecond),
		}
		if out != want {
			t.Errorf("outcome %+v, want %+v", out, want)
		}
		s.Close()
	})
}

func TestFailureReachesOnlyItsCaller(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, v := shell(t, 1, &curve{base: time.Millisecond}, batched())
		var good []error
		var bad []error
		var wg sync.WaitGroup
		wg.Go(func() { good = do(t.Context(), s, v, 5, "good") })
		wg.Go(func() { bad = do(t.Context(), s, v, 1, "bad") })
		wg.Wait()
		if err := errors.Join(good...); err != nil {
			t.Errorf("batch mates failed: %v", err)
		}
		if !errors.Is(bad[0], errBad) {
			t.Errorf("the bad task got %v", bad[0])
		}
		s.Close()
	})
}

func TestCancelledWhileQueuedIsNeverExecuted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		exec := &curve{base: 10 * time.Millisecond}
		s, v := shell(t, 1, exec, batched())
		cause := errors.New("superseded")
		ctx, cancel := context.WithCancelCause(t.Context())
		var wg sync.WaitGroup
		wg.Go(func() { s.Do(t.Context(), v, &sharedsched.Task{Rows: 1}) })
		synctest.Wait()
		begin := time.Now()
		wg.Go(func() {
			if _, err := s.Do(ctx, v, &sharedsched.Task{Rows: 1}); !errors.Is(err, cause) {
				t.Errorf("error %v, want the cause of the context", err)
			}
			if waited := time.Since(begin); waited != 2*time.Millisecond {
				t.Errorf("the caller waited %v after 2ms", waited)
			}
		})
		time.Sleep(2 * time.Millisecond)
		cancel(cause)
		wg.Wait()
		if len(exec.batches) != 1 {
			t.Errorf("%d executions, want 1", len(exec.batches))
		}
		s.Close()
	})
}

func TestCancelledWhileRunningIsWaitedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, v := shell(t, 1, &curve{base: 10 * time.Millisecond}, batched())
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		begin := time.Now()
		if _, err := s.Do(ctx, v, &sharedsched.Task{Rows: 1}); err != nil {
			t.Errorf("the task was running and got %v", err)
		}
		if took := time.Since(begin); took != 10*time.Millisecond {
			t.Errorf("Do returned after %v while the payload was in use for 10ms", took)
		}
		s.Close()
	})
}

func TestLimitPassesInTheQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		exec := &curve{base: 10 * time.Millisecond}
		s, v := shell(t, 1, exec, batched())
		var wg sync.WaitGroup
		wg.Go(func() { s.Do(t.Context(), v, &sharedsched.Task{Rows: 1}) })
		synctest.Wait()
		begin := time.Now()
		_, err := s.Do(t.Context(), v, &sharedsched.Task{Rows: 1, Limit: begin.Add(3 * time.Millisecond)})
		if !errors.Is(err, sharedsched.ErrExpired) || time.Since(begin) != 3*time.Millisecond {
			t.Errorf("%v after %v, want ErrExpired after 3ms", err, time.Since(begin))
		}
		wg.Wait()
		if len(exec.batches) != 1 {
			t.Errorf("%d executions, want 1", len(exec.batches))
		}
		s.Close()
	})
}

func TestBatchTimeoutHoldsAPartialBatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		set := batched()
		set.BatchTimeout = 5 * time.Millisecond
		s, v := shell(t, 1, &curve{}, set)
		for range 3 { // the timer must be set again each time
			out, err := s.Do(t.Context(), v, &sharedsched.Task{Rows: 1})
			if err != nil || out.Queue != 5*time.Millisecond || out.Reason != sharedsched.FlushTimeout {
				t.Errorf("outcome %+v, %v; want 5ms in the queue", out, err)
			}
		}
		s.Close()
	})
}

// TestConfigureCutsAHoldShort: new settings apply to a batch that is held already.
func TestConfigureCutsAHoldShort(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		set := batched()
		set.BatchTimeout = time.Hour
		s, v := shell(t, 1, &curve{}, set)
		begin := time.Now()
		var wg sync.WaitGroup
		wg.Go(func() {
			_, err := s.Do(t.Context(), v, &sharedsched.Task{Rows: 1})
			if err != nil || time.Since(begin) != 5*time.Millisecond {
				t.Errorf("%v after %v, want an answer after 5ms", err, time.Since(begin))
			}
		})
		synctest.Wait()
		set.BatchTimeout = 5 * time.Millisecond
		if err := s.Configure(v, set); err != nil {
			t.Error(err)
		}
		wg.Wait()
		s.Close()
	})
}

// TestCancelFreesWhatWaitedBehind: a background task waits for a held foreground task; once that is cancelled it may
// run.
func TestCancelFreesWhatWaitedBehind(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		set := batched()
		set.BatchTimeout = time.Hour
		s, held := shell(t, 1, &curve{}, set)
		f, _ := s.AddFlow("other", "d", 1)
		other, err := s.AddVersion("other/1", f, batched())
		if err != nil {
			t.Fatal(err)
		}
		begin := time.Now()
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		var wg sync.WaitGroup
		wg.Go(func() { s.Do(ctx, held, &sharedsched.Task{Rows: 1, Target: time.Second}) })
		synctest.Wait()
		wg.Go(func() {
			if _, err := s.Do(t.Context(), other, &sharedsched.Task{Rows: 1, Priority: sharedsched.Sheddable}); err != nil ||
				time.Since(begin) != time.Millisecond {
				t.Errorf("%v after %v, want an answer after 1ms", err, time.Since(begin))
			}
		})
		wg.Wait()
		s.Close()
	})
}

func TestDoneContextIsNotServed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		exec := &curve{}
		s, v := shell(t, 1, exec, batched())
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		for range 1000 {
			if _, err := s.Do(ctx, v, &sharedsched.Task{Rows: 1}); !errors.Is(err, context.Canceled) {
				t.Fatal(err)
			}
		}
		if len(exec.batches) > 0 {
			t.Errorf("%d executions for a caller that had gone", len(exec.batches))
		}
		s.Close()
	})
}

func TestDrainAnswersWhatWasAccepted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		set := batched()
		set.BatchTimeout = time.Hour // the drain must not wait for it
		s, v := shell(t, 1, &curve{base: time.Millisecond}, set)
		var wg sync.WaitGroup
		wg.Go(func() {
			for _, err := range do(t.Context(), s, v, 10, nil) {
				if err != nil {
					t.Errorf("accepted and then %v", err)
				}
			}
		})
		synctest.Wait()
		if err := s.Drain(t.Context()); err != nil {
			t.Fatal(err)
		}
		wg.Wait()
		if _, err := s.Do(t.Context(), v, &sharedsched.Task{Rows: 1}); !errors.Is(err, sharedsched.ErrDraining) {
			t.Errorf("after Drain: %v", err)
		}
		s.Close()
	})
}

func TestRemoveVersionWaitsForItsLastRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, v := shell(t, 2, &curve{base: 10 * time.Millisecond}, batched())
		var wg sync.WaitGroup
		wg.Go(func() { do(t.Context(), s, v, 3, nil) })
		synctest.Wait()
		begin := time.Now()
		var removers sync.WaitGroup
		for range 2 { // asking twice is no mistake
			removers.Go(func() {
				if err := s.RemoveVersion(t.Context(), v); err != nil {
					t.Error(err)
				}
				if time.Since(begin) < 10*time.Millisecond {
					t.Errorf("removed after %v while a batch ran for 10ms", time.Since(begin))
				}
			})
		}
		removers.Wait()
		wg.Wait()
		if _, err := s.Do(t.Context(), v, &sharedsched.Task{Rows: 1}); !errors.Is(err, sharedsched.ErrRemoved) {
			t.Errorf("after RemoveVersion: %v", err)
		}
		if err := s.RemoveVersion(t.Context(), v); err != nil {
			t.Errorf("removing again: %v", err)
		}
		s.Close()
	})
}

func TestCloseEndsWhatWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, v := shell(t, 1, &curve{base: time.Millisecond}, sharedsched.Settings{MaxBatchSize: 1, MaxQueue: 100})
		var errs []error
		var wg sync.WaitGroup
		wg.Go(func() { errs = do(t.Context(), s, v, 10, nil) })
		synctest.Wait()
		s.Close()
		s.Close()
		wg.Wait()
		closed := 0
		for _, err := range errs {
			if errors.Is(err, sharedsched.ErrClosed) {
				closed++
			} else if err != nil {
				t.Error(err)
			}
		}
		if closed != 9 {
			t.Errorf("%d of 10 calls got ErrClosed; one was running", closed)
		}
		if _, err := s.Do(t.Context(), v, &sharedsched.Task{Rows: 1}); !errors.Is(err, sharedsched.ErrClosed) {
			t.Errorf("after Close: %v", err)
		}
	})
}

func TestLanesOverlap(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		exec := &curve{base: 10 * time.Millisecond}
		s, v := shell(t, 2, exec, sharedsched.Settings{MaxBatchSize: 1, MaxQueue: 100})
		for range 3 { // beyond the cold start, which runs one at a time
			s.Do(t.Context(), v, &sharedsched.Task{Rows: 1})
		}
		begin := time.Now()
		do(t.Context(), s, v, 4, nil)
		if took := time.Since(begin); took != 20*time.Millisecond || exec.most != 2 {
			t.Errorf("4 runs of 10ms on 2 lanes took %v with %d in flight", took, exec.most)
		}
		st := s.State()
		if st.Devices[0].Busy != 70*time.Millisecond || st.Flows[0].Served != 70*time.Millisecond {
			t.Errorf("busy %v, served %v; want 70ms both: each lane has a processor", st.Devices[0].Busy,
				st.Flows[0].Served)
		}
		s.Close()
	})
}

type counter struct {
	mu      sync.Mutex
	batches []sharedsched.BatchEvent // guarded by mu
}

func (c *counter) BatchDone(e sharedsched.BatchEvent) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.batches = append(c.batches, e)
}

func TestObserverHearsOfEveryBatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		obs := &counter{}
		s, err := New(sharedsched.Config{Devices: []sharedsched.Device{{Name: "d", Lanes: 1}}},
			&curve{base: 2 * time.Millisecond}, Options{Observer: obs})
		if err != nil {
			t.Fatal(err)
		}
		f, _ := s.AddFlow("m", "d", 1)
		v, err := s.AddVersion("m/1", f,
			sharedsched.Settings{Batched: true, MaxBatchSize: 4, MaxQueue: 4, AllowedBatchSizes: []int{4}})
		if err != nil {
			t.Fatal(err)
		}
		errs := do(t.Context(), s, v, 10, nil)
		s.Close()
		var refusals, tasks int
		for _, err := range errs {
			if _, ok := errors.AsType[*sharedsched.Refusal](err); ok {
				refusals++
			}
		}
		for _, e := range obs.batches {
			tasks += e.Tasks
			if e.Padded != 4 || e.Elapsed != 2*time.Millisecond || e.DeviceTime != e.Elapsed {
				t.Errorf("batch %+v", e)
			}
		}
		if refusals == 0 || tasks+refusals != 10 {
			t.Errorf("%d refused; %d tasks heard of, want all others of 10", refusals, tasks)
		}
	})
}
