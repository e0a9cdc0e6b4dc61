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

// TestVersionsSpread: over devices that are loaded alike; and resident ones stay while others come and go.
func TestVersionsSpread(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, m := newFleet(t, time.Millisecond, "a", "b", "c")
		for _, name := range []string{"one", "two", "three", "four"} {
			w.add(name, 1, m.open, tiny)
			w.load(name)
		}
		w.on("one", 1, "a")
		w.on("two", 1, "b")
		w.on("three", 1, "c")
		w.on("four", 1, "a")
		w.listing.Models = w.listing.Models[1:]
		w.load("two")
		w.on("two", 1, "b")
		w.on("four", 1, "a")
		w.add("five", 1, m.open, tiny)
		w.load("five")
		w.on("five", 1, "a") // the first of three with one each
	})
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

// TestPlacementByMemory: a version that does not fit goes elsewhere; one that fits nowhere is refused with the figures,
// and loaded when there is room again.
func TestPlacementByMemory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, m := newFleet(t, time.Millisecond, "a", "b", "cpu")
		m.free["a"], m.free["b"], m.free["cpu"] = 1<<20, 3<<20, 0
		w.add("first", 1, m.open, tiny)
		w.add("second", 1, m.open, tiny)
		w.add("large", 1, m.open, nil)
		w.sized("large", 1, 3<<20) // 4.5 MiB
		w.load("first")
		got := map[string]int{}
		for _, name := range []string{"first", "second"} {
			got[w.version(name, 1).Device]++
		}
		if got["a"] != 1 || got["b"] != 1 {
			t.Errorf("the small ones are on %v, want one on each GPU", got)
		}
		cause := w.version("large", 1).Cause
		for _, want := range []string{
			`no device can take model "large" version 1, which needs about 4.5 MiB: a has `,
			" MiB free, b has ", ", cpu has 0.0 MiB free",
		} {
			if !strings.Contains(cause, want) {
				t.Errorf("cause %q, want %q in it", cause, want)
			}
		}
		if e, is := errors.AsType[*catalog.PlacementError](w.LoadVersion(t.Context(), "large", 1)); !is ||
			len(e.Devices) != 3 || e.Need != 9<<19 {
			t.Errorf("LoadVersion: %+v", e)
		}
		m.mu.Lock()
		m.free["cpu"] = 5 << 20
		m.mu.Unlock()
		time.Sleep(time.Minute)
		w.on("large", 1, "cpu") // the last resort
	})
}

// TestRoomIsUsedAtOnce: a version that failed for want of a device's memory is loaded as soon as another was unloaded
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

// TestLoadsAtOnceShareTheMemory: of two versions that are loaded at once and fit into a device one by one, the second
// sees the first.
func TestLoadsAtOnceShareTheMemory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, m := newFleet(t, time.Millisecond, "a", "b")
		m.free["a"], m.free["b"] = 3<<19, 0
		loading := make(chan struct{})
		m.opens["a"] = func() error {
			<-loading
			return nil
		}
		w.add("x", 1, m.open, tiny)
		w.add("y", 1, m.open, tiny)
		w.Follow(w.listing)
		synctest.Wait()
		states := map[catalog.State]int{w.version("x", 1).State: 1}
		states[w.version("y", 1).State]++
		if states[catalog.Loading] != 1 || states[catalog.Failed] != 1 {
			t.Errorf("x is %v, y is %v; want one to be loading and one to have failed", w.version("x", 1).State,
				w.version("y", 1).State)
		}
		close(loading)
		time.Sleep(time.Minute)
		w.states("x/1 ready", "y/1 ready") // the driver says that there is room again
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
