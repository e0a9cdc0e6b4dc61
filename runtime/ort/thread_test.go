package ort_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weftserve/weft/runtime/engine"
	"github.com/weftserve/weft/runtime/ort"
	"github.com/weftserve/weft/runtime/tensor"
)

// A session that has a thread runs one batch at a time. The wait for another counts neither as time on the device nor
// towards a batch's patience, and ends with the context.
func TestOneRunAtATime(t *testing.T) {
	useFakeCUDA(t)
	initialise(t)
	synctest.Test(t, func(t *testing.T) {
		s, _ := openGraphs(t, neg())
		for i := range 4 {
			negate(t, s, float32(i), 1)
		}
		begin := func(ctx context.Context, patience time.Duration) (b *tensor.Batch, err func() error) {
			b = batchOf(t, s, floats(tensor.Shape{1, 2}, 5, 6))
			b.Patience = patience
			result := make(chan error, 1)
			go func() { result <- s.Run(ctx, b) }()
			synctest.Wait()
			return b, func() error { return <-result }
		}
		const ms = time.Millisecond
		held := ort.Seize(t)
		first, firstErr := begin(t.Context(), 0)
		second, secondErr := begin(t.Context(), 5*ms)
		ctx, cancel := context.WithCancelCause(t.Context())
		third, thirdErr := begin(ctx, 0)
		gone := errors.New("gone")
		cancel(gone)
		if err := thirdErr(); !errors.Is(err, gone) || engine.KindOf(err) != engine.Terminated || third.DeviceTime != 0 {
			t.Errorf("a caller that went away while it waited: %v after %v", err, third.DeviceTime)
		}
		time.Sleep(10 * ms)
		held()
		if err := errors.Join(firstErr(), secondErr()); err != nil {
			t.Fatal(err)
		}
		if first.DeviceTime != 10*ms || second.DeviceTime != 0 {
			t.Errorf("the first took %v, the second %v; want 10ms and 0s", first.DeviceTime, second.DeviceTime)
		}
	})
}

// Runs that wait for their turn end when the session is closed.
func TestCloseWhileRunsWait(t *testing.T) {
	useFakeCUDA(t)
	initialise(t)
	synctest.Test(t, func(t *testing.T) {
		s, _ := openGraphs(t, neg())
		for i := range 4 {
			negate(t, s, float32(i), 1)
		}
		held := ort.Seize(t)
		var runs sync.WaitGroup
		for range 3 {
			b := batchOf(t, s, floats(tensor.Shape{1, 2}, 5, 6))
			runs.Go(func() {
				if err := s.Run(t.Context(), b); err != nil && !errors.Is(err, engine.ErrClosed) {
					t.Errorf("got %v", err)
				}
			})
		}
		synctest.Wait()
		closed := make(chan error)
		go func() { closed <- s.Close() }()
		synctest.Wait()
		held()
		if err := <-closed; err != nil {
			t.Error(err)
		}
		runs.Wait()
	})
}

// A panic of a run, as for lack of memory, is its caller's.
func TestPanicOnThread(t *testing.T) {
	useFakeCUDA(t)
	s, _ := openGraphs(t, neg())
	b := tensor.NewBatch(1, 1, &failing{after: 1})
	defer b.Free()
	fill(b, floats(tensor.Shape{1, 2}, 1, 2))
	func() {
		defer func() {
			if got := recover(); got == nil {
				t.Error("the run did not panic")
			}
		}()
		_ = s.Run(t.Context(), b)
	}()
	negate(t, s, 1, 2)
}

// failing gives memory a few times.
type failing struct {
	tensor.SystemMemory

	after int
}

func (f *failing) Allocate(size int) ([]byte, error) {
	if f.after--; f.after < 0 {
		return nil, errors.New("no more")
	}
	return f.SystemMemory.Allocate(size)
}
