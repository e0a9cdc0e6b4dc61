package host_test

import (
	"errors"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/weftserve/weft/runtime/catalog"
	"github.com/weftserve/weft/runtime/modelrepo"
)

// traffickers are callers that ask without end: each chooses a version from the newest snapshot as the traffic says,
// once more if that stopped being ready before it took the request, and checks that the answer is of that version.
type traffickers struct {
	w      *world
	stop   chan struct{}
	group  sync.WaitGroup
	done   atomic.Int64
	again  atomic.Int64 // choices made once more
	failed atomic.Int64
	wrong  atomic.Int64
}

func (w *world) callers(n int) *traffickers {
	c := &traffickers{w: w, stop: make(chan struct{})}
	for range n {
		c.group.Go(func() {
			for {
				select {
				case <-c.stop:
					return
				default:
					c.call()
				}
			}
		})
	}
	return c
}

func (c *traffickers) call() {
	for tried := (*catalog.Version)(nil); ; c.again.Add(1) {
		m := c.w.Snapshot().Model("m")
		v := m.Newest()
		if m.Traffic != nil && len(m.Traffic.Split) > 0 {
			v = m.Version(m.Traffic.Split[0].Version)
		}
		got, err := c.w.answer(v)
		switch {
		case errors.Is(err, catalog.ErrNotReady) && v != tried:
			tried = v
			continue
		case err != nil:
			c.failed.Add(1)
			c.w.t.Errorf("version %d: %v", v.Number, err)
		case got != 3*float32(v.Number):
			c.wrong.Add(1)
			c.w.t.Errorf("version %d answers %v", v.Number, got)
		}
		c.done.Add(1)
		return
	}
}

func (c *traffickers) end() {
	close(c.stop)
	c.group.Wait()
}

const swaps = 15

// small makes loading quick.
func small(m *modelrepo.Manifest) { m.Batching.MaxBatchSize = 2 }

// TestHotSwapsUnderLoad: load the next version, move the traffic, unload the one before, and that over and over: no
// request fails, none is answered by another version than it was led to, and nothing is left of those before.
func TestHotSwapsUnderLoad(t *testing.T) {
	w := newWorld(t, 2)
	engines := []*fake{times(1)}
	w.add("m", 1, engines[0], small)
	w.reconcile()
	if _, err := w.SetTraffic("m", split(1), 0); err != nil {
		t.Fatal(err)
	}
	callers := w.callers(8)
	for n := int64(2); n <= swaps+1; n++ {
		next := times(float32(n))
		engines = append(engines, next)
		w.add("m", n, next, nil)
		w.choose("m", n)
		w.reconcile() // the version before stays: the traffic names it
		if _, err := w.SetTraffic("m", split(n), 0); err != nil {
			t.Fatal(err)
		}
		w.reconcile()
	}
	callers.end()
	t.Logf("%d requests, %d of them routed twice", callers.done.Load(), callers.again.Load())
	if callers.done.Load() < swaps {
		t.Errorf("only %d requests", callers.done.Load())
	}
	w.nothingLeftOf(engines[:swaps])
}

// TestReplacementsUnderLoad: the same for files that change under one number. No caller has to choose twice.
func TestReplacementsUnderLoad(t *testing.T) {
	w := newWorld(t, 2)
	engines := []*fake{times(1)}
	w.add("m", 1, engines[0], small)
	w.reconcile()
	callers := w.callers(8)
	for n := range swaps {
		next := times(1)
		engines = append(engines, next)
		w.put("m", 1, next, string(rune('A'+n)))
		w.reconcile()
	}
	callers.end()
	if n := callers.again.Load(); n > 0 {
		t.Errorf("%d requests of %d had to be routed again", n, callers.done.Load())
	}
	w.nothingLeftOf(engines[:swaps])
}

// nothingLeftOf checks that the engines are closed and that one version is resident.
func (w *world) nothingLeftOf(engines []*fake) {
	w.t.Helper()
	for i, f := range engines {
		if f.Closed() != 1 {
			w.t.Errorf("version %d was closed %d times", i+1, f.Closed())
		}
	}
	if v, f := w.sched.State().Versions, w.flows(); len(v) != 1 || len(f) != 1 {
		w.t.Errorf("%d versions and %d flows are in the scheduler", len(v), len(f))
	}
	if n := w.Counts(); n.Loads != uint64(len(engines))+1 || n.Unloads != uint64(len(engines)) || n.LoadFailures != 0 {
		w.t.Errorf("counted %+v", n)
	}
	if got := w.Snapshot().Model("m").Versions; len(got) != 1 {
		w.t.Errorf("%d versions are published", len(got))
	}
	if versions, replicas := w.Known(); versions+replicas > 0 {
		w.t.Errorf("%d versions and %d replicas are remembered though they are gone", versions, replicas)
	}
}
