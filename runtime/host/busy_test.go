package host_test

import (
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weftserve/weft/runtime/modelrepo"
	"github.com/weftserve/weft/runtime/tensor"
)

// slow is a model of 5 ms and 1 ms for each row, whose rows are independent.
func slow() *fake {
	f := times(1)
	answer := f.Answer
	f.Answer = func(b *tensor.Batch) error {
		<-time.After(5*time.Millisecond + time.Duration(b.Inputs[0].Shape[0])*time.Millisecond)
		return answer(b)
	}
	return f
}

// besiege has callers ask version 1 of m again and again, as it was published at first, and counts the answers.
func (w *world) besiege(callers int, want float32) (answered *atomic.Int64, end func()) {
	answered = &atomic.Int64{}
	stop := make(chan struct{})
	var all sync.WaitGroup
	v := w.version("m", 1)
	for range callers {
		all.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				if got, err := w.answer(v); err != nil || got != want {
					w.t.Errorf("%v, %v", got, err)
					return
				}
				answered.Add(1)
			}
		})
	}
	return answered, func() {
		close(stop)
		all.Wait()
	}
}

// TestProofsGetOnUnderFullLoad: where callers who ask again at once leave the device no time, larger batches are soon
// in force, and a new version is proven and takes no more than its share of the device from them.
func TestProofsGetOnUnderFullLoad(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 1)
		w.add("m", 1, slow(), func(m *modelrepo.Manifest) { m.Batching.MaxBatchSize = 1 })
		w.reconcile()
		answered, end := w.besiege(16, 3)
		defer end()
		<-time.After(time.Second)

		start, before := time.Now(), answered.Load()
		w.edit("m", func(m *modelrepo.Manifest) { m.Batching.MaxBatchSize = 8 })
		w.reconcile()
		took := time.Since(start)
		t.Logf("batches of 8 are in force after %v, in which %d requests were answered", took, answered.Load()-before)
		if b := w.version("m", 1).Batching; b.MaxBatchSize != 8 || took > 3*time.Second {
			t.Errorf("batches of %d are in force after %v", b.MaxBatchSize, took)
		}

		<-time.After(time.Second)
		before = answered.Load()
		<-time.After(time.Second)
		rate := float64(answered.Load() - before)
		start, before = time.Now(), answered.Load()
		w.add("m", 2, slow(), nil)
		w.reconcile()
		took = time.Since(start)
		part := float64(answered.Load()-before) / took.Seconds() / rate
		t.Logf("a new version is ready after %v, in which callers had %.3f of what they have alone", took, part)
		if w.version("m", 2).Cause != "" || took > 4*time.Second || part < 0.5 {
			t.Errorf("a new version is ready after %v, in which callers had %.2f of what they have alone", took, part)
		}
	})
}
