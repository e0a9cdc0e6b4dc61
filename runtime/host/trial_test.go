package host_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weftserve/weft/runtime/catalog"
	"github.com/weftserve/weft/runtime/engine"
	"github.com/weftserve/weft/runtime/host"
	"github.com/weftserve/weft/runtime/tensor"
	"github.com/weftserve/weft/sharedsched"
)

// hanging is an engine with a quarantine whose runs of a suspect end by their patience only in the worker, and those of
// a poison by that or their context in quarantine.
type hanging struct {
	*fake
	quarantine   *fake
	killed       atomic.Int32 // times that the worker's process was ended
	tried, tries atomic.Int32 // runs in quarantine; those that go on
}

// trial is the quarantine of a hanging engine.
type trial struct {
	engine.Session
	of *hanging
}

func (q trial) Run(ctx context.Context, b *tensor.Batch) error {
	q.of.tried.Add(1)
	q.of.tries.Add(1)
	defer q.of.tries.Add(-1)
	time.Sleep(time.Second) // a process is started
	if values(b.Inputs[0])[0] < poison {
		return q.Session.Run(ctx, b)
	}
	var over <-chan time.Time
	if b.Patience > 0 {
		over = time.After(b.Patience)
	}
	select {
	case <-ctx.Done():
		return &engine.Error{Kind: engine.Terminated, Err: context.Cause(ctx)}
	case <-over:
		return engine.Overrun(b.Patience, errors.New("it hangs"))
	}
}

// hangs returns a world with a hanging version whose runs may take so long, and the version.
func hangs(t *testing.T, timeout time.Duration) (*world, *hanging, *catalog.Version) {
	t.Helper()
	h := &hanging{fake: perRow(1, doubleUnlessNaN), quarantine: perRow(1, doubleUnlessNaN)}
	run := h.Answer
	h.Answer = func(b *tensor.Batch) error {
		if values(b.Inputs[0])[0] >= suspect {
			h.killed.Add(1)
			time.Sleep(2 * time.Second)
			return engine.Overrun(2*time.Second, errors.New("it hangs"))
		}
		time.Sleep(time.Millisecond)
		return run(b)
	}
	h.Opened.Quarantine = trial{h.quarantine, h}
	w := newWorldOf(t, 1, func(c *host.Config) { c.RunTimeout = timeout })
	w.add("m", 1, h.fake, trusted)
	v := w.load("m")
	answered(t, w, v, 1)
	return w, h, v
}

// TestAHangIsProven however short its callers' limits are: the request ends the process once, those that bring the same
// inputs meanwhile wait for the verdict, and then it is not run any more.
func TestAHangIsProven(t *testing.T) {
	for _, limit := range []time.Duration{0, 50 * time.Millisecond, time.Hour} {
		synctest.Test(t, func(t *testing.T) {
			w, h, v := hangs(t, 30*time.Second)
			began := time.Now()
			for {
				call := ask(v, 1, poison)
				if limit > 0 {
					call.Limit = time.Now().Add(limit)
				}
				err := w.Predict(t.Context(), call)
				if e, is := errors.AsType[*catalog.ModelError](err); is && e.Crashed {
					break
				}
				if !errors.Is(err, sharedsched.ErrExpired) || h.tried.Load() == 1 &&
					!strings.Contains(err.Error(), "the request is run by itself") || time.Since(began) > time.Minute {
					t.Fatalf("limit %v: after %v: %v", limit, time.Since(began), err)
				}
			}
			if c := v.Live().Crashes; h.killed.Load() != 1 || h.tried.Load() != 1 || c.Proven != 1 {
				t.Errorf("limit %v: it ended the process %d times, with %d runs in quarantine; %+v", limit,
					h.killed.Load(), h.tried.Load(), c)
			}
			answered(t, w, v, 1)
		})
	}
}

// TestAVersionThatHangsIsTakenOut although no caller waits for any of the proofs.
func TestAVersionThatHangsIsTakenOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, h, v := hangs(t, 30*time.Second)
		for i := range 3 {
			if err := w.Predict(t.Context(), ask(v, 1, poison+float32(i))); !errors.Is(err, sharedsched.ErrExpired) {
				t.Fatal(err)
			}
		}
		w.states("m/1 ready")
		if n := h.killed.Load(); n != 3 {
			t.Errorf("the process was ended %d times", n)
		}
		time.Sleep(23 * time.Second) // the third began at 20 s, and had 2 s, 1 s and 30 s
		synctest.Wait()
		w.states("m/1 failed")
	})
}

// TestEqualRequestsAreTriedOnce: the same poison of three callers makes one proof; equal requests that are innocent are
// answered.
func TestEqualRequestsAreTriedOnce(t *testing.T) {
	f, quarantine := crashing()
	b := newBench(t, f, trusted)
	calls := []*catalog.Call{
		ask(nil, 1, poison), ask(nil, 1, 1), ask(nil, 1, poison), ask(nil, 1, 1), ask(nil, 1, poison),
	}
	errs, _ := b.together(0, calls)
	for i, err := range errs {
		e, is := errors.AsType[*catalog.ModelError](err)
		if i%2 == 0 && (!is || !e.Crashed) ||
			i%2 == 1 && (err != nil || values(calls[i].Results[0])[0] != 2) {
			t.Errorf("request %d: %v (%+v)", i, err, e)
		}
	}
	if runs := quarantine.Forget(); !slices.Equal(runs, []int{1, 1, 1}) {
		t.Errorf("runs in quarantine: %v, want one of the poison, and two of the other", runs)
	}
	if c := b.version("m", 1).Live().Crashes; c.Proven != 1 || c.Remembered != 1 {
		t.Errorf("%+v", c)
	}
}

// TestARequestWaitsForAnEqualOne that is tried, and is answered if that was innocent.
func TestARequestWaitsForAnEqualOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, h, v := hangs(t, 30*time.Second)
		first := ask(v, 1, suspect)
		first.Limit = time.Now().Add(2500 * time.Millisecond)
		if err := w.Predict(t.Context(), first); !errors.Is(err, sharedsched.ErrExpired) {
			t.Fatal(err)
		}
		second := ask(v, 1, suspect)
		err := w.Predict(t.Context(), second)
		if err != nil || values(second.Results[0])[0] != 2*suspect || h.killed.Load() != 2 || h.tried.Load() != 2 {
			t.Errorf("%v, %v; %d runs, and %d in quarantine", err, second.Results, h.killed.Load(), h.tried.Load())
		}
	})
}

// TestTrialsThatNobodyWaitsFor: so many go on, and end with their replica.
func TestTrialsThatNobodyWaitsFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const most = 64
		w, h, v := hangs(t, time.Hour)
		left, leave := context.WithCancel(t.Context())
		errs := make(chan error, most+1)
		for i := range cap(errs) {
			go func() {
				call := ask(v, 1, poison+float32(i))
				call.Limit = time.Now().Add(time.Hour)
				errs <- w.Predict(left, call)
			}()
		}
		time.Sleep(10 * time.Minute)
		if n := h.tries.Load(); n != most+1 {
			t.Fatalf("%d are tried", n)
		}
		leave()
		for range cap(errs) {
			if err := <-errs; !errors.Is(err, context.Canceled) {
				t.Error(err)
			}
		}
		synctest.Wait()
		if n := h.tries.Load(); n != most {
			t.Errorf("%d go on, want %d", n, most)
		}
		if err := w.Unload(t.Context(), "m", 1); err != nil {
			t.Error(err)
		}
		synctest.Wait()
		if n, open := h.tries.Load(), w.Counts().MemoryInUse; n != 0 || open != 0 {
			t.Errorf("without the replica %d go on, and %d bytes are held", n, open)
		}
	})
}

// TestATrialWithoutARunTimeout ends when its caller leaves: nothing else would end it.
func TestATrialWithoutARunTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, h, v := hangs(t, 0)
		if err := w.Predict(t.Context(), ask(v, 1, poison)); !errors.Is(err, sharedsched.ErrExpired) {
			t.Error(err)
		}
		synctest.Wait()
		if tried, tries := h.tried.Load(), h.tries.Load(); tried != 1 || tries != 0 {
			t.Errorf("it was tried %d times, and %d go on", tried, tries)
		}
	})
}
