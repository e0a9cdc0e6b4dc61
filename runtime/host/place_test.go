package host_test

import (
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weftserve/weft/runtime/catalog"
	"github.com/weftserve/weft/runtime/host"
	"github.com/weftserve/weft/runtime/modelrepo"
)

// tiny is a model that is counted as 1 MiB, request by request.
func tiny(m *modelrepo.Manifest) {
	m.Synth = &modelrepo.Synth{}
	m.Batching.Mode = modelrepo.BatchOff
}

// TestPlacementByLoad: a device on which much was asked for lately is passed over, even if it has fewer versions.
func TestPlacementByLoad(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, m := newFleet(t, 10*time.Millisecond, "a", "b")
		w.add("busy", 1, m.open, tiny)
		busy := w.load("busy")
		stop := w.keepAsking(busy, 1)
		time.Sleep(10 * time.Second)
		for _, name := range []string{"x", "y"} {
			w.add(name, 1, m.open, tiny)
			w.load(name)
			w.on(name, 1, "b")
		}
		// The new version of busy goes to where its costs are known, unless that is clearly more loaded: it is.
		w.add("busy", 2, m.open, tiny)
		w.load("busy")
		w.on("busy", 2, "b")
		stop()
		time.Sleep(time.Minute)
		w.add("busy", 3, m.open, tiny)
		w.load("busy")
		w.on("busy", 3, "b") // although a has one version, and b four: there it is at home
	})
}

// TestPlacementCountsWhatWasRefused: of two devices that are busy all the time, the one is more loaded that refuses
// requests.
func TestPlacementCountsWhatWasRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, m := newFleet(t, 10*time.Millisecond, "a", "b")
		w.add("x", 1, m.open, func(m *modelrepo.Manifest) {
			tiny(m)
			m.Batching.MaxQueue = 1
		})
		w.load("x")
		w.add("y", 1, m.open, tiny)
		w.load("y")
		stop := w.keepAsking(w.version("x", 1), 8)
		defer stop()
		defer w.keepAsking(w.version("y", 1), 1)()
		time.Sleep(20 * time.Second)
		w.add("z", 1, m.open, tiny)
		w.load("z")
		w.on("z", 1, "b")
	})
}

// keepAsking has so many callers ask a version again and again.
func (w *world) keepAsking(v *catalog.Version, callers int) (stop func()) {
	done, ended := make(chan struct{}), make(chan struct{})
	for range callers {
		go func() {
			for {
				select {
				case <-done:
					ended <- struct{}{}
					return
				default:
				}
				if err := w.Predict(w.t.Context(), ask(v, 1, 1)); err != nil {
					time.Sleep(time.Millisecond)
				}
			}
		}()
	}
	return func() {
		close(done)
		for range callers {
			<-ended
		}
	}
}

// TestRoomIsUsedAtOnce: a version that failed for lack of a device's memory is loaded as soon as another was unloaded
// there.
func TestRoomIsUsedAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, m := newFleet(t, time.Millisecond, "a", "b")
		m.free["a"], m.free["b"] = 1<<20, 0
		m.closes["a"] = func() {
			m.mu.Lock()
			defer m.mu.Unlock()
			m.free["a"] = 1 << 20
		}
		w.add("x", 1, m.open, tiny)
		w.load("x")
		m.mu.Lock()
		m.free["a"] = 0
		m.mu.Unlock()
		w.add("y", 1, m.open, tiny)
		w.load("y")
		w.states("x/1 ready", "y/1 failed")
		time.Sleep(20 * time.Minute) // the next attempt by itself is minutes away then, but for one time in hundreds
		w.listing.Models = w.listing.Models[1:]
		w.load("y")
		time.Sleep(100 * time.Millisecond)
		w.states("y/1 ready")
	})
}

// TestOutOfMemoryAtOpening: the estimate was too low, so that another device is tried.
func TestOutOfMemoryAtOpening(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, m := newFleet(t, time.Millisecond, "a", "b")
		m.opens["a"] = func() error { return errMemory }
		w.add("m", 1, m.open, tiny)
		w.load("m")
		w.on("m", 1, "b")
		m.opens["b"] = func() error { return errors.New("the file is damaged") }
		w.add("other", 1, m.open, tiny)
		if v := w.load("other"); v.State != catalog.Failed || v.Cause != "the file is damaged" {
			t.Errorf("%v: %s", v.State, v.Cause)
		}
	})
}

// TestNoSite: a version that cannot run anywhere fails with the error of Config.Sites.
func TestNoSite(t *testing.T) {
	w := newWorldOf(t, 1, func(c *host.Config) {
		c.Sites = func(modelrepo.Version, *modelrepo.Manifest) ([]host.Site, error) {
			return nil, errors.New("there is no GPU")
		}
	})
	w.add("m", 1, times(1), nil)
	if v := w.load("m"); v.State != catalog.Failed || !strings.Contains(v.Cause, "there is no GPU") {
		t.Errorf("%v: %s", v.State, v.Cause)
	}
}
