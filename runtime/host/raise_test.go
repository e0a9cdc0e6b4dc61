package host_test

import (
	"errors"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weftserve/weft/runtime/catalog"
	"github.com/weftserve/weft/runtime/engine"
	"github.com/weftserve/weft/runtime/host"
)

const (
	raised    = "upgrade_done"
	notRaised = "upgrade_failed"
)

// room says how much of a device's memory is free.
func (m *machines) room(device string, bytes int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.free[device] += bytes
}

// asking makes callers ask the newest version of m without end. None of them may get an error, except that another
// number is the newest.
func (w *world) asking() (stop func()) {
	done := make(chan struct{})
	var callers sync.WaitGroup
	for range 4 {
		callers.Go(func() {
			for {
				select {
				case <-done:
					return
				case <-time.After(time.Millisecond):
				}
				v := w.Snapshot().Model("m").Newest()
				err := w.Predict(w.t.Context(), ask(v, 1, 1))
				if next := w.Snapshot().Model("m").Newest(); errors.Is(err, catalog.ErrNotReady) &&
					next.Number != v.Number {
					err = w.Predict(w.t.Context(), ask(next, 1, 1))
				}
				if err != nil {
					w.t.Errorf("on the way: %v", err)
				}
			}
		})
	}
	return func() {
		close(done)
		callers.Wait()
	}
}

// TestAVersionMovesWhereThereIsRoom: one that is on the last resort, because the device that it prefers was full, moves
// there when there is room, and does not come back. No request fails.
func TestAVersionMovesWhereThereIsRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, m := newFleet(t, 2*time.Millisecond, "gpu", "cpu")
		m.room("gpu", 0)
		w.add("m", 1, func(device string) (engine.Opened, error) {
			o, err := m.open(device)
			o.Notes = []string{"on " + device}
			return o, err
		}, tiny)
		first := w.load("m")
		w.on("m", 1, "cpu")
		const want = "it is on cpu for now, and moves when a device that its manifest prefers has room for it; it " +
			"needs about 1.0 MiB: gpu has 0.0 MiB free"
		if got := w.version("m", 1).Scarce; got != want {
			t.Errorf("scarce %q, want %q", got, want)
		}
		before := w.Snapshot().Revision
		time.Sleep(10 * time.Minute)
		w.on("m", 1, "cpu")
		stop := w.asking()
		if now := w.Snapshot().Revision; now != before {
			t.Errorf("revision %d became %d although nothing changed", before, now)
		}
		m.room("gpu", 1<<20)
		time.Sleep(7 * time.Second)
		w.on("m", 1, "gpu")
		if v := w.version("m", 1); v.Scarce != "" || !slices.Contains(v.Signature.Notes, "on gpu") ||
			slices.Contains(v.Signature.Notes, "on cpu") {
			t.Errorf("scarce %q, notes %q", v.Scarce, v.Signature.Notes)
		}
		stop()
		answered(t, w, first, 4) // asked for as it was published first
		m.room("gpu", -1<<20)
		time.Sleep(10 * time.Minute)
		w.on("m", 1, "gpu")
		if got := m.sessions(); !maps.Equal(got, map[string]int{"gpu": 1}) || w.Counts().MemoryInUse != 1<<20 ||
			len(w.sched.State().Versions) != 1 {
			t.Errorf("open sessions: %v, memory %d, in the scheduler %d", got, w.Counts().MemoryInUse,
				len(w.sched.State().Versions))
		}
		if n := len(w.logs.Event(raised)); n != 1 {
			t.Errorf("%d moves are logged, want 1", n)
		}
	})
}

// TestRoomThatIsTakenMeanwhile: a device that had room when it was looked at, and none a moment later, has none as long
// as no more is known.
func TestRoomThatIsTakenMeanwhile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		free := []int64{0, 1 << 30, 0} // at the load, the look, and the move; then nobody knows
		w, m := newFleetOf(t, time.Millisecond, []string{"gpu", "cpu"}, func(c *host.Config) {
			c.FreeMemory = func(device string) (int64, bool) {
				if device != "gpu" || len(free) == 0 {
					return 0, false
				}
				now := free[0]
				free = free[1:]
				return now, true
			}
		})
		w.add("m", 1, m.open, tiny)
		w.load("m")
		time.Sleep(time.Hour)
		w.on("m", 1, "cpu")
		if len(free) > 0 {
			t.Errorf("%v were not asked for", free)
		}
	})
}

// TestMovingNeedsTheBudgetTwice: that it does not hold the version twice is no failure, so that it moves soon after it
// does.
func TestMovingNeedsTheBudgetTwice(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, m := newFleetOf(t, time.Millisecond, []string{"a", "cpu"},
			func(c *host.Config) { c.MemoryBudget = 2 << 20 })
		m.room("a", 0)
		w.add("m", 1, m.open, tiny)
		w.load("m")
		w.add("other", 1, m.open, tiny)
		w.load("other")
		m.room("a", 1<<20)
		time.Sleep(40 * time.Minute)
		const want = "it is on cpu for now, and moves when the memory budget has room for it on two devices at once: " +
			`loading model "m" version 1 needs about 1.0 MiB, and 2.0 MiB of the memory budget of 2.0 MiB are taken`
		if got := w.version("m", 1).Scarce; !strings.HasPrefix(got, want) || len(w.logs.Event(notRaised)) != 2 {
			t.Errorf("scarce %q, logged %d times; want it once for each version", got, len(w.logs.Event(notRaised)))
		}
		before := w.Snapshot().Revision
		time.Sleep(40 * time.Minute)
		if now := w.Snapshot().Revision; now != before {
			t.Errorf("revision %d became %d although nothing changed", before, now)
		}
		w.listing.Models = w.listing.Models[:1]
		if err := w.Reconcile(t.Context(), w.listing); err != nil {
			t.Fatal(err)
		}
		time.Sleep(7 * time.Second)
		w.on("m", 1, "a")
	})
}

// TestLookingAboveHoldsUpNothing: a driver that takes its time is asked once for all that wait, and by no goroutine
// that has something else to do.
func TestLookingAboveHoldsUpNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		asked, slow := map[string]int{}, time.Duration(0)
		w, m := newFleetOf(t, 100*time.Millisecond, []string{"gpu", "gpu2", "cpu"}, func(c *host.Config) {
			c.FreeMemory = func(device string) (int64, bool) {
				mu.Lock()
				asked[device]++
				wait := slow
				mu.Unlock()
				time.Sleep(wait)
				return 0, device != "cpu"
			}
		})
		for _, name := range []string{"a", "b", "c", "d", "e", "f", "g", "h"} {
			w.add(name, 1, m.open, tiny)
		}
		v := w.load("a")
		mu.Lock()
		clear(asked)
		slow = 2 * time.Second
		mu.Unlock()
		for begin := time.Now(); time.Since(begin) < time.Minute; time.Sleep(150 * time.Millisecond) {
			if err := w.Predict(t.Context(), ask(v, 1, 1)); err != nil {
				t.Fatal(err)
			}
			if load := w.Load("cpu"); time.Since(begin) > 30*time.Second && (load < 0.3 || load > 0.5) {
				t.Errorf("the load is %.2f, want 0.40", load)
			}
		}
		looks := func() int {
			mu.Lock()
			defer mu.Unlock()
			return asked["gpu"]
		}
		mu.Lock()
		if want := map[string]int{"gpu": 12, "gpu2": 12}; !maps.Equal(asked, want) {
			t.Errorf("asked %v times in a minute, want %v", asked, want)
		}
		mu.Unlock()
		for before := looks(); looks() == before; {
			time.Sleep(time.Millisecond)
		}
		begin := time.Now()
		if err := w.Close(t.Context()); err != nil {
			t.Error(err)
		}
		if took := time.Since(begin); took > 2*time.Second {
			t.Errorf("the host took %v to close", took)
		}
	})
}

// TestALostDeviceIsNotWaitedFor, whether it is lost before or after the version was loaded.
func TestALostDeviceIsNotWaitedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, m := newFleet(t, time.Millisecond, "gpu", "cpu")
		m.room("gpu", 0)
		w.add("m", 1, m.open, tiny)
		if w.load("m").Scarce == "" {
			t.Error("it does not wait for the device")
		}
		w.LoseDevice("gpu", errors.New("fell off the bus"))
		m.room("gpu", 1<<20)
		w.add("later", 1, m.open, tiny)
		if got := w.load("later").Scarce; got != "" {
			t.Errorf("of what is loaded later: scarce %q", got)
		}
		time.Sleep(10 * time.Minute)
		for _, name := range []string{"m", "later"} {
			w.on(name, 1, "cpu")
			if got := w.version(name, 1).Scarce; got != "" {
				t.Errorf("%s: scarce %q", name, got)
			}
		}
	})
}

// TestAnEngineThatDeclines a device is not asked again, since it was asked once: at the load, or when there was room.
func TestAnEngineThatDeclines(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, free := range []int64{0, 1 << 20} {
			w, m := newFleet(t, time.Millisecond, "gpu", "cpu")
			m.room("gpu", free)
			asked := 0
			w.add("m", 1, func(device string) (engine.Opened, error) {
				if device == "gpu" {
					asked++
				}
				return m.open("cpu")
			}, tiny)
			w.load("m")
			m.room("gpu", 1<<20)
			time.Sleep(3 * time.Hour)
			synctest.Wait()
			w.on("m", 1, "cpu")
			if got := w.version("m", 1).Scarce; got != "" || asked != 1 || m.sessions()["cpu"] != 1 {
				t.Errorf("scarce %q, asked %d times, sessions %v", got, asked, m.sessions())
			}
		}
	})
}
