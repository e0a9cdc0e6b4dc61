package host_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/weftserve/weft/internal/weftest"
	"github.com/weftserve/weft/runtime/modelrepo"
	"github.com/weftserve/weft/runtime/tensor"
	"github.com/weftserve/weft/sharedsched"
)

// crowd makes so many calls from several goroutines, and fails the test unless some of them shared executions.
func crowd(t *testing.T, n int, call func(i int) (sharedsched.Outcome, error)) {
	t.Helper()
	var shared atomic.Int32
	for range 50 { // on a busy machine calls may come one by one for a while
		var wg sync.WaitGroup
		for g := range 8 {
			wg.Go(func() {
				for i := g; i < n; i += 8 {
					out, err := call(i)
					if err != nil {
						t.Errorf("call %d: %v", i, err)
						return
					}
					if out.BatchRequests > 1 {
						shared.Add(1)
					}
				}
			})
		}
		wg.Wait()
		if shared.Load() > 0 || t.Failed() {
			return
		}
	}
	t.Error("no two calls ever shared an execution, so the test shows nothing")
}

// slowly makes a model's runs so long that others queue up behind it.
func slowly(f *fake) *fake {
	run := f.Answer
	f.Answer = func(b *tensor.Batch) error {
		for end := time.Now().Add(200 * time.Microsecond); time.Now().Before(end); {
		}
		return run(b)
	}
	return f
}

func TestConcurrentCalls(t *testing.T) {
	for _, lanes := range []int{1, 3} {
		w := newWorld(t, lanes)
		w.add("m", 1, slowly(perRow(2, double)), nil)
		v := w.load("m")
		crowd(t, 2000, func(i int) (sharedsched.Outcome, error) {
			rows := 1 + i%5
			in := make([]float32, 2*rows)
			for k := range in {
				in[k] = float32(i*100 + k)
			}
			c := ask(v, rows, in...)
			if err := w.Predict(t.Context(), c); err != nil {
				return c.Outcome, err
			}
			for k, y := range values(c.Results[0]) {
				if y != 2*in[k] {
					return c.Outcome, fmt.Errorf("value %d is %v, want %v", k, y, 2*in[k])
				}
			}
			if diff := cmp.Diff(tensor.Shape{int64(rows), 2}, c.Results[0].Shape); diff != "" {
				return c.Outcome, fmt.Errorf("shape (-want +got):\n%s", diff)
			}
			return c.Outcome, nil
		})
	}
}

// TestErrorsOfTheScheduler come out as they are.
func TestErrorsOfTheScheduler(t *testing.T) {
	w := newWorld(t, 1)
	entered, release := make(chan struct{}), make(chan struct{})
	f := perRow(1, double)
	run, block := f.Answer, false
	f.Answer = func(b *tensor.Batch) error {
		if block {
			entered <- struct{}{}
			<-release
		}
		return run(b)
	}
	w.add("m", 1, f, func(m *modelrepo.Manifest) { m.Batching.MaxQueue, m.Batching.MaxRequestRows = 1, 100 })
	v := w.load("m")
	block = true

	if err := w.Predict(t.Context(), ask(v, 101, make([]float32, 101)...)); !errors.Is(err,
		sharedsched.ErrTooManyRows) {
		t.Errorf("101 rows: %v", err)
	}
	var wg sync.WaitGroup
	defer wg.Wait()
	defer close(release)
	wg.Go(func() { _ = w.Predict(t.Context(), ask(v, 1, 1)) })
	<-entered

	superseded := errors.New("superseded")
	ctx, cancel := context.WithCancelCause(t.Context())
	queued := make(chan error)
	wg.Go(func() { queued <- w.Predict(ctx, ask(v, 1, 1)) })
	weftest.Until(t, "one queued", func() bool { return w.sched.State().Versions[0].Queued > 0 })
	refusal := (*sharedsched.Refusal)(nil)
	if err := w.Predict(t.Context(), ask(v, 1, 1)); !errors.As(err, &refusal) ||
		refusal.Reason != sharedsched.RefusedQueueFull {
		t.Errorf("one more than the queue holds: %v", err)
	}
	cancel(superseded)
	if err := <-queued; !errors.Is(err, superseded) {
		t.Errorf("cancelled in the queue: %v", err)
	}
}

// expired returns a context that has ended.
func expired(t *testing.T) context.Context {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	return ctx
}
