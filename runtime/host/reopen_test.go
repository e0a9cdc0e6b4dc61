package host_test

import (
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weftserve/weft/runtime/catalog"
	"github.com/weftserve/weft/runtime/engine"
	"github.com/weftserve/weft/runtime/modelrepo"
	"github.com/weftserve/weft/runtime/tensor"
	"github.com/weftserve/weft/sharedsched"
)

// TestManyWaitForAModel that is opened again, more than its queue has room for: none of them is refused.
func TestManyWaitForAModel(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 1)
		f := perRow(1, double)
		run, opened := f.Answer, make(chan struct{})
		var down atomic.Bool
		f.Answer = func(b *tensor.Batch) error {
			select {
			case <-opened:
			default:
				if down.Load() {
					return &engine.Error{Kind: engine.Terminated, Err: &engine.ReopeningError{Done: opened}}
				}
			}
			time.Sleep(time.Millisecond)
			return run(b)
		}
		w.add("m", 1, f, func(m *modelrepo.Manifest) { m.Batching.MaxBatchSize, m.Batching.MaxQueue = 2, 2 })
		v := w.load("m")
		down.Store(true)
		calls := oneRowCalls(12)
		for _, c := range calls {
			c.Version = v
		}
		wait := asked(t, w, calls)
		close(opened)
		for i, err := range wait() {
			if err != nil {
				t.Errorf("request %d: %v", i, err)
			}
		}
	})
}

// TestAModelThatIsOpenedAgain: its requests wait for it, within their limits, also if some of their rows were answered
// before; other models of the device are answered meanwhile.
func TestAModelThatIsOpenedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 1)
		f := perRow(1, double)
		run, opened := f.Answer, make(chan struct{})
		var good atomic.Int32 // runs that go well yet
		f.Answer = func(b *tensor.Batch) error {
			select {
			case <-opened:
			default:
				if good.Add(-1) < 0 {
					return &engine.Error{Kind: engine.Terminated, Err: &engine.ReopeningError{Done: opened}}
				}
			}
			return run(b)
		}
		good.Store(1000)
		w.add("m", 1, f, func(m *modelrepo.Manifest) { m.Batching.MaxBatchSize, m.Batching.MaxRequestRows = 4, 8 })
		v := w.load("m")
		w.add("other", 1, perRow(1, double), nil)
		other := w.load("other")

		good.Store(1)
		calls := []*catalog.Call{ask(v, 7, 1, 2, 3, 4, 5, 6, 7), ask(v, 1, 8), ask(v, 1, 9), ask(v, 1, 10)}
		calls[3].Limit = time.Now().Add(time.Second)
		wait := asked(t, w, calls)
		answered(t, w, other, 8)
		time.Sleep(2 * time.Second)
		close(opened)
		for i, err := range wait() {
			if i == 3 {
				if !errors.Is(err, sharedsched.ErrExpired) {
					t.Errorf("a request with a limit: %v", err)
				}
				continue
			}
			if err != nil {
				t.Fatal(err)
			}
			for k, x := range values(calls[i].Inputs[0]) {
				if y := values(calls[i].Results[0]); len(y) != calls[i].Rows || y[k] != 2*x {
					t.Errorf("request %d row %d: %v for %v", i, k, y, x)
				}
			}
		}
	})
}
