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

	"github.com/weftserve/weft/internal/weftest"
	"github.com/weftserve/weft/runtime/catalog"
	"github.com/weftserve/weft/runtime/engine"
	"github.com/weftserve/weft/runtime/host"
	"github.com/weftserve/weft/runtime/modelrepo"
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

// filled makes sessions on a device take 1 MiB of its memory each.
func (m *machines) filled(device string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.opens[device] = func() error {
		m.room(device, -1<<20)
		return nil
	}
	m.closes[device] = func() { m.room(device, 1<<20) }
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

// TestHotSwapsOnOneDevice: where the new one has no room next to the old one, it answers from the last resort until the
// old one is gone.
func TestHotSwapsOnOneDevice(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, m := newFleet(t, 2*time.Millisecond, "gpu", "cpu")
		m.room("gpu", 1<<20)
		m.filled("gpu")
		w.add("m", 1, m.open, tiny)
		w.load("m")
		w.on("m", 1, "gpu")
		stop := w.asking()
		w.put("m", 1, m.open, "second") // under the same number
		w.load("m")
		w.on("m", 1, "cpu")
		time.Sleep(7 * time.Second)
		w.on("m", 1, "gpu")
		w.add("m", 2, m.open, nil) // and under a new one
		w.choose("m", 2)
		if err := w.Reconcile(t.Context(), w.listing); err != nil {
			t.Fatal(err)
		}
		w.states("m/2 ready")
		w.on("m", 2, "cpu")
		time.Sleep(7 * time.Second)
		w.on("m", 2, "gpu")
		stop()
		synctest.Wait()
		if got := m.sessions(); !maps.Equal(got, map[string]int{"gpu": 1}) {
			t.Errorf("open sessions: %v", got)
		}
	})
}

// TestRaisingFails: it is tried again later and later, once each time however long that takes, and said why; a version
// that was out of memory when it was loaded counts as tried, and so does one that failed where nothing is known of free
// memory.
func TestRaisingFails(t *testing.T) {
	const took = 8 * time.Second
	for name, cause := range map[string]error{
		"memory": errMemory, "unknown": errMemory,
		"other": errors.New("not here"),
	} {
		synctest.Test(t, func(t *testing.T) {
			w, m := newFleet(t, time.Millisecond, "gpu", "cpu")
			switch name {
			case "other":
				m.room("gpu", 0)
			case "memory":
				m.room("gpu", 1<<20)
			}
			var tried, ended []time.Time
			m.opens["gpu"] = func() error {
				tried = append(tried, time.Now())
				time.Sleep(took)
				ended = append(ended, time.Now())
				return cause
			}
			w.add("m", 1, m.open, tiny)
			w.load("m")
			w.on("m", 1, "cpu")
			if name == "other" {
				m.room("gpu", 1<<20)
			}
			time.Sleep(400 * time.Minute)
			synctest.Wait()
			want := []int{1, 2, 4, 8, 16, 32, 64, 64, 64, 64, 64} // minutes
			if len(tried) != len(want)+1 {
				t.Fatalf("%s: tried %d times, want %d", name, len(tried), len(want)+1)
			}
			for i, minutes := range want {
				wait := time.Duration(minutes) * time.Minute
				if got := tried[i+1].Sub(ended[i]); got < wait || got > wait+5*time.Second {
					t.Errorf("%s: attempt %d comes %v after the one before, want %v", name, i+2, got, wait)
				}
			}
			w.on("m", 1, "cpu")
			v := w.version("m", 1)
			wanted := "it is on cpu for now; loading it on a device that its manifest prefers failed, and is tried " +
				"again: "
			if !strings.HasPrefix(v.Scarce, wanted) || !strings.Contains(v.Scarce, cause.Error()) {
				t.Errorf("%s: scarce %q", name, v.Scarce)
			}
			if n := len(w.logs.Event(notRaised)); n == 0 {
				t.Errorf("%s: it is not logged", name)
			}
			m.mu.Lock()
			delete(m.opens, "gpu")
			m.mu.Unlock()
			time.Sleep(65 * time.Minute)
			w.on("m", 1, "gpu")
			if v := w.version("m", 1); v.Scarce != "" {
				t.Errorf("%s: scarce %q", name, v.Scarce)
			}
		})
	}
}

// TestUnknownRoomIsNone for versions that wait for room: a driver that does not answer any more makes none. Waiting
// versions are looked at again and again, and their published text follows, but not at each look.
func TestUnknownRoomIsNone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, m := newFleet(t, time.Millisecond, "gpu", "cpu")
		m.room("gpu", 0)
		tried := 0
		m.opens["gpu"] = func() error {
			tried++
			return nil
		}
		w.add("m", 1, m.open, tiny)
		w.load("m")
		m.mu.Lock()
		delete(m.free, "gpu")
		m.mu.Unlock()
		time.Sleep(10 * time.Minute)
		w.on("m", 1, "cpu")
		const want = "it needs about 1.0 MiB: gpu: it had no room when its free memory was known last, which it is " +
			"not now"
		if got := w.version("m", 1).Scarce; tried != 0 || !strings.HasSuffix(got, want) {
			t.Errorf("tried %d times; scarce %q", tried, got)
		}
		before := w.Snapshot().Revision
		m.room("gpu", 0)
		for i := range 10 * 60 {
			time.Sleep(time.Second)
			m.room("gpu", int64(1-i%2*2)<<19)
		}
		got, is := strings.CutSuffix(w.version("m", 1).Scarce, " MiB free")
		if !is || !strings.HasSuffix(got, "it needs about 1.0 MiB: gpu has 0.0") &&
			!strings.HasSuffix(got, "it needs about 1.0 MiB: gpu has 0.5") {
			t.Errorf("scarce %q", got)
		}
		if n := w.Snapshot().Revision - before; n == 0 || n > 10 {
			t.Errorf("published %d times in 10 minutes", n)
		}
		m.room("gpu", 1<<20)
		time.Sleep(7 * time.Second)
		w.on("m", 1, "gpu")
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
		w, m := newFleetOf(t, time.Millisecond, []string{"gpu", "cpu"},
			func(c *host.Config) { c.MemoryBudget = 2 << 20 })
		m.room("gpu", 0)
		w.add("m", 1, m.open, tiny)
		w.load("m")
		w.add("other", 1, m.open, tiny)
		w.load("other")
		m.room("gpu", 1<<20)
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
		w.on("m", 1, "gpu")
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

// TestTheDeviceIsLostInTheMove: the version goes on where it is.
func TestTheDeviceIsLostInTheMove(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, m := newFleet(t, time.Millisecond, "gpu", "cpu")
		m.room("gpu", 0)
		w.add("m", 1, m.open, tiny)
		w.load("m")
		m.opens["gpu"] = func() error {
			w.LoseDevice("gpu", errors.New("fell off the bus"))
			return nil
		}
		stop := w.asking()
		m.room("gpu", 1<<20)
		time.Sleep(10 * time.Second)
		stop()
		time.Sleep(10 * time.Minute)
		w.on("m", 1, "cpu")
		if got := w.version("m", 1).Scarce; got != "" || len(m.sessions()) != 1 {
			t.Errorf("scarce %q, sessions %v", got, m.sessions())
		}
	})
}

// TestAMoveThatTakesLong takes the room that it is made for, which is not taken for want of room.
func TestAMoveThatTakesLong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, m := newFleet(t, time.Millisecond, "gpu", "cpu")
		m.room("gpu", 0)
		w.add("m", 1, m.open, tiny)
		w.load("m")
		opened := 0
		m.opens["gpu"] = func() error {
			opened++
			time.Sleep(10 * time.Minute)
			return nil
		}
		m.room("gpu", 1<<20)
		before := w.Snapshot().Revision
		time.Sleep(9 * time.Minute)
		w.on("m", 1, "cpu")
		if now := w.Snapshot().Revision; now != before {
			t.Errorf("revision %d became %d although nothing changed", before, now)
		}
		time.Sleep(2 * time.Minute)
		w.on("m", 1, "gpu")
		if opened != 1 {
			t.Errorf("opened %d times", opened)
		}
	})
}

// TestAReplicaIsLostInTheMove that was to go: the one that was loaded takes its place.
func TestAReplicaIsLostInTheMove(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, m := newFleet(t, time.Millisecond, "a", "b", "cpu", "cpu2")
		m.room("a", 0)
		m.room("b", 0)
		w.add("m", 1, m.open, replicated(2))
		w.load("m")
		w.on("m", 1, "cpu", "cpu2")
		m.mu.Lock()
		m.opens["a"] = func() error {
			w.LoseDevice("cpu2", errors.New("fell off the bus"))
			time.Sleep(20 * time.Second)
			return nil
		}
		m.mu.Unlock()
		m.room("a", 1<<20)
		time.Sleep(time.Minute)
		w.on("m", 1, "a", "cpu")
		if got := m.sessions(); !maps.Equal(got, map[string]int{"a": 1, "cpu": 1}) {
			t.Errorf("open sessions: %v", got)
		}
		for _, r := range w.logs.Event(raised) {
			if from := weftest.Attr(r, "from"); from.Any() != nil {
				t.Errorf("it is said to come from %v", from)
			}
		}
	})
}

// TestReplicasMoveOneByOne, and are as many as were asked for where the better devices suffice.
func TestReplicasMoveOneByOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, m := newFleet(t, 2*time.Millisecond, "a", "b", "cpu", "cpu2")
		m.room("a", 0)
		m.room("b", 0)
		w.add("m", 1, m.open, replicated(2))
		w.load("m")
		w.on("m", 1, "cpu", "cpu2")
		stop := w.asking()
		m.room("b", 1<<20)
		time.Sleep(7 * time.Second)
		w.on("m", 1, "b", "cpu")
		const want = "it is on cpu for now, and moves when a device that its manifest prefers has room for it; it " +
			"needs about 1.0 MiB"
		if got := w.version("m", 1).Scarce; got != want+" on a" {
			t.Errorf("scarce %q", got)
		}
		time.Sleep(5 * time.Second)
		if got := w.version("m", 1).Scarce; got != want+": a has 0.0 MiB free" {
			t.Errorf("scarce %q", got)
		}
		m.room("a", 1<<20)
		time.Sleep(7 * time.Second)
		w.on("m", 1, "b", "a")
		stop()
		synctest.Wait()
		if got := m.sessions(); !maps.Equal(got, map[string]int{"a": 1, "b": 1}) || w.version("m", 1).Scarce != "" {
			t.Errorf("open sessions: %v; scarce %q", got, w.version("m", 1).Scarce)
		}
	})
	synctest.Test(t, func(t *testing.T) {
		w, m := newFleet(t, 2*time.Millisecond, "a", "b", "cpu")
		m.room("a", 0)
		m.room("b", 0)
		w.add("m", 1, m.open, replicated(2))
		w.load("m")
		w.on("m", 1, "cpu")
		m.room("a", 1<<20)
		m.room("b", 1<<20)
		time.Sleep(7 * time.Second)
		w.on("m", 1, "a", "b")
		if got := w.version("m", 1).Scarce; got != "" {
			t.Errorf("scarce %q", got)
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

// TestAVersionThatALabelKeepsMoves too, unless its files are not those that were loaded any more.
func TestAVersionThatALabelKeepsMoves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, changed := range []bool{false, true} {
			w, m := newFleet(t, time.Millisecond, "gpu", "cpu")
			m.room("gpu", 0)
			w.add("m", 1, m.open, func(m *modelrepo.Manifest) {
				tiny(m)
				m.Versions.Labels = map[string]int64{"old": 1}
			})
			w.load("m")
			w.add("m", 2, m.open, nil)
			w.choose("m", 2)
			want := "gpu"
			if changed {
				w.put("m", 1, m.open, "second")
				w.choose("m", 2)
				want = "cpu"
			}
			w.load("m")
			m.room("gpu", 4<<20)
			time.Sleep(time.Minute)
			w.on("m", 1, want)
			w.on("m", 2, "gpu")
		}
	})
}
