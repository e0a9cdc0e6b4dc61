package host_test

import (
	"context"
	"errors"
	"maps"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/weftserve/weft/runtime/catalog"
	"github.com/weftserve/weft/runtime/modelrepo"
	"github.com/weftserve/weft/sharedsched"
)

const lostEvent = "device_lost"

// fates are how the requests of a test ended, by their error; "" for an answer.
type fates struct {
	w       *world
	callers sync.WaitGroup

	mu    sync.Mutex
	ended map[string]int // guarded by mu
	calls []*catalog.Call
}

func (w *world) fates() *fates { return &fates{w: w, ended: map[string]int{}} }

// send asks v in the background.
func (f *fates) send(v *catalog.Version, change func(*catalog.Call)) {
	f.callers.Go(func() {
		c := ask(v, 1, 21)
		if change != nil {
			change(c)
		}
		err := f.w.Predict(f.w.t.Context(), c)
		name := ""
		for _, known := range []error{catalog.ErrDeviceLost, catalog.ErrNotReady, sharedsched.ErrExpired} {
			if errors.Is(err, known) {
				name = known.Error()
			}
		}
		if err != nil && name == "" {
			f.w.t.Errorf("unexpected: %v", err)
		}
		if err == nil && values(c.Results[0])[0] != 42 {
			f.w.t.Errorf("answered %v", values(c.Results[0]))
		}
		f.mu.Lock()
		defer f.mu.Unlock()
		f.ended[name]++
		if err == nil {
			f.calls = append(f.calls, c)
		}
	})
	synctest.Wait()
}

func (f *fates) want(want map[string]int) {
	f.w.t.Helper()
	f.callers.Wait()
	if diff := cmp.Diff(want, f.ended); diff != "" {
		f.w.t.Errorf("requests (-want +got):\n%s", diff)
	}
}

// TestALostDeviceWithAnotherReplica: running requests on it fail, waiting ones are answered by the other replica, and
// nothing goes there again.
func TestALostDeviceWithAnotherReplica(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, m := newFleet(t, 100*time.Millisecond, "a", "b")
		w.add("m", 1, m.open, replicated(2))
		v := w.load("m")
		m.runs()
		f := w.fates()
		for range 6 { // three each, and one of them runs
			f.send(v, nil)
		}
		m.breaks("a")
		begin := time.Now()
		f.want(map[string]int{"": 5, catalog.ErrDeviceLost.Error(): 1})
		if took := time.Since(begin); took != 500*time.Millisecond {
			t.Errorf("they ended after %v, want 500ms: b has its three, and the two that waited for a", took)
		}
		for _, c := range f.calls {
			if o := c.Outcome; o.Device != "b" || o.Queue%(100*time.Millisecond) != 0 {
				t.Errorf("answered on %s after %v in queues", o.Device, o.Queue)
			}
		}
		var queued time.Duration
		for _, c := range f.calls {
			queued = max(queued, c.Outcome.Queue)
		}
		if queued != 400*time.Millisecond {
			t.Errorf("the longest wait is said to be %v, want 400ms, in both queues", queued)
		}
		w.on("m", 1, "b")
		if lost := w.Snapshot().Lost; len(lost) != 1 || lost[0].Name != "a" ||
			!strings.Contains(lost[0].Cause, "lost its device") {
			t.Errorf("lost: %+v", lost)
		}
		answered(t, w, w.version("m", 1), 4)
		synctest.Wait()
		if got := m.runs(); got["a"] != 1 {
			t.Errorf("runs: %v, want 1 on a", got)
		}
		if got := m.sessions(); !maps.Equal(got, map[string]int{"b": 1}) {
			t.Errorf("open sessions: %v", got)
		}
		w.LoseDevice("a", errors.New("again"))
		if n := len(w.logs.Event(lostEvent)); n != 1 {
			t.Errorf("logged %d times", n)
		}
		w.add("new", 1, m.open, tiny)
		w.load("new")
		w.on("new", 1, "b")
	})
}

// TestLostWhileUnloading: two have it in hand then, and one gives back its resources.
func TestLostWhileUnloading(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, m := newFleet(t, time.Second, "a", "b")
		w.add("m", 1, m.open, tiny)
		v := w.load("m")
		f := w.fates()
		f.send(v, nil)
		var unloading sync.WaitGroup
		unloading.Go(func() {
			if err := w.UnloadVersion(t.Context(), "m", 1); err != nil {
				t.Error(err)
			}
		})
		synctest.Wait()
		w.LoseDevice("a", errors.New("fell off the bus"))
		synctest.Wait()
		w.states("m/1 unloading")
		f.want(map[string]int{"": 1})
		unloading.Wait()
		synctest.Wait()
		w.states("m ")
		if n := w.Counts(); n.Unloads != 1 || n.MemoryInUse != 0 || len(m.sessions()) != 0 ||
			len(w.flows()) != 0 {
			t.Errorf("counted %+v, sessions %v, flows %v", n, m.sessions(), w.flows())
		}
	})
}

// TestALostDeviceWithoutAnotherReplica: the version is loaded elsewhere, and waiting requests wait for that, within
// their limits.
func TestALostDeviceWithoutAnotherReplica(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, m := newFleet(t, 100*time.Millisecond, "a", "b")
		m.opens["b"] = func() error {
			time.Sleep(3 * time.Second)
			return nil
		}
		w.add("m", 1, m.open, func(m *modelrepo.Manifest) {
			tiny(m)
			m.MaxLatency = 0
		})
		v := w.load("m")
		w.on("m", 1, "a")
		f := w.fates()
		begin := time.Now()
		f.send(v, nil)                                                                        // runs
		f.send(v, nil)                                                                        // waits without a limit
		f.send(v, func(c *catalog.Call) { c.Limit = begin.Add(time.Minute) })                 //
		f.send(v, func(c *catalog.Call) { c.Limit = begin.Add(time.Second) })                 // too early
		f.send(v, func(c *catalog.Call) { c.Shadow, c.Limit = true, begin.Add(time.Minute) }) //
		f.send(v, func(c *catalog.Call) { c.Target, c.Limit = 1, begin.Add(10*time.Second) }) //
		m.breaks("a")
		time.Sleep(200 * time.Millisecond)
		w.states("m/1 loading")
		f.send(v, nil) // a new one does not wait
		f.want(map[string]int{
			"": 4, catalog.ErrDeviceLost.Error(): 1, sharedsched.ErrExpired.Error(): 1,
			catalog.ErrNotReady.Error(): 1,
		})
		w.on("m", 1, "b")
		for _, c := range f.calls {
			if c.Outcome.Queue < 3*time.Second || c.Outcome.Queue > time.Since(begin) {
				t.Errorf("an answer waited %v", c.Outcome.Queue)
			}
		}
		if n := w.Counts(); n.Loads != 2 || n.Unloads != 1 {
			t.Errorf("counted %+v", n)
		}
		synctest.Wait()
		for _, s := range w.published() {
			if v := s.Model("m").Version(1); v.State == catalog.Failed {
				t.Errorf("it was published as failed: %s", v.Cause)
			}
		}
	})
}

// TestTheLastDeviceIsLost: the version has failed, with the cause, and requests are refused.
func TestTheLastDeviceIsLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, m := newFleet(t, 100*time.Millisecond, "a", "b")
		w.add("m", 1, m.open, replicated(2))
		v := w.load("m")
		f := w.fates()
		for range 6 {
			f.send(v, nil)
		}
		m.breaks("a")
		m.breaks("b")
		time.Sleep(10 * time.Millisecond)
		w.LoseDevice("b", errors.New("fell off the bus"))
		f.want(map[string]int{catalog.ErrDeviceLost.Error(): 2, catalog.ErrNotReady.Error(): 4})
		synctest.Wait()
		now := w.version("m", 1)
		if now.State != catalog.Failed || len(now.Replicas) != 0 {
			t.Errorf("%v on %q", now.State, where(now))
		}
		want := `no device can take model "m" version 1, which needs about 1.0 MiB: ` +
			"a: it is lost: a: the engine lost its device, b: it is lost: fell off the bus"
		if !strings.HasPrefix(now.Cause, want) { // how often it was tried may follow
			t.Errorf("cause %q, want %q", now.Cause, want)
		}
		f = w.fates()
		f.send(now, nil)
		f.want(map[string]int{catalog.ErrNotReady.Error(): 1})
		if len(m.sessions()) != 0 {
			t.Errorf("open sessions: %v", m.sessions())
		}
		if len(w.Snapshot().Lost) != 2 || len(w.logs.Event(lostEvent)) != 2 {
			t.Errorf("lost: %v", w.Snapshot().Lost)
		}
	})
}

// TestLostWhileLoading: in its trial, or when it is opened, or between that and when it is published.
func TestLostWhileLoading(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, m := newFleet(t, time.Millisecond, "a", "b", "c", "d")
		m.breaks("a")
		w.add("m", 1, m.open, replicated(2))
		w.load("m")
		synctest.Wait()
		w.on("m", 1, "b", "c")
		m.opens["d"] = func() error { return errLost }
		w.add("other", 1, m.open, tiny)
		w.load("other")
		w.on("other", 1, "b")
		if n := len(w.logs.Event("version_failed")); n != 0 || w.Counts().LoadFailures != 0 {
			t.Error("a load is said to have failed")
		}
		// While the second replica of its replacement is loaded, the device of the first is lost; nothing of that is
		// published yet.
		m.opens["c"] = func() error {
			m.mu.Lock()
			delete(m.opens, "c")
			m.mu.Unlock()
			w.LoseDevice("b", errors.New("fell off the bus"))
			synctest.Wait()
			return nil
		}
		w.put("m", 1, m.open, "second")
		w.load("m")
		synctest.Wait()
		w.on("m", 1, "c")
		w.on("other", 1, "c")
		if got := m.sessions(); !maps.Equal(got, map[string]int{"c": 2}) {
			t.Errorf("open sessions: %v", got)
		}
		answered(t, w, w.version("m", 1), 1)
	})
}

// TestALostDeviceThatHangs: a session that does not close on it holds up neither its version nor the end.
func TestALostDeviceThatHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, m := newFleet(t, time.Millisecond, "a", "b")
		for1h := func() { time.Sleep(time.Hour) }
		m.closes["a"] = for1h
		w.add("m", 1, m.open, tiny)
		w.load("m")
		w.on("m", 1, "a")
		begin := time.Now()
		w.LoseDevice("a", errors.New("fell off the bus"))
		synctest.Wait()
		w.load("m")
		w.on("m", 1, "b")
		if err := w.Close(context.Background()); err != nil {
			t.Error(err)
		}
		if took := time.Since(begin); took > 6*time.Second {
			t.Errorf("the end took %v", took)
		}
		if len(w.logs.Event("replica_close_failed")) != 1 {
			t.Error("that a session was left behind is not logged")
		}
		time.Sleep(time.Hour) // until that ends, for the leak check
	})
}

// TestARunThatHangsOnALostDevice: requests that wait behind it are answered elsewhere as soon as the host learns that
// the device is lost.
func TestARunThatHangsOnALostDevice(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, m := newFleet(t, time.Millisecond, "a", "b")
		w.add("m", 1, m.open, tiny)
		v := w.load("m")
		m.mu.Lock()
		m.took = time.Hour
		m.mu.Unlock()
		f := w.fates()
		f.send(v, func(c *catalog.Call) { c.Limit = time.Now().Add(2 * time.Hour) })
		m.mu.Lock()
		m.took = time.Millisecond
		m.mu.Unlock()
		f.send(v, nil)
		w.LoseDevice("a", errors.New("fell off the bus"))
		time.Sleep(time.Second)
		f.mu.Lock()
		if len(f.calls) != 1 || f.calls[0].Outcome.Device != "b" {
			t.Errorf("a second later %d requests are answered, want one, by b", len(f.calls))
		}
		f.mu.Unlock()
		f.want(map[string]int{"": 2}) // the run did come to an end
	})
}

// TestADeviceComesBack as another incarnation: a version that failed for lack of it is loaded there, and one that found
// a worse place moves.
func TestADeviceComesBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, m := newFleet(t, time.Millisecond, "gpu", "cpu")
		w.add("m", 1, m.open, tiny)
		w.load("m")
		w.on("m", 1, "gpu")
		w.LoseDevice("gpu", errors.New("fell off the bus"))
		w.LoseDevice("gpu", errors.New("fell off the bus again"))
		time.Sleep(time.Minute)
		w.on("m", 1, "cpu")
		if lost := w.Snapshot().Lost; len(lost) != 1 || lost[0].Cause != "fell off the bus" {
			t.Errorf("lost %v", lost)
		}
		stop := w.asking()
		w.RestoreDevice("gpu")
		w.RestoreDevice("gpu") // does nothing
		time.Sleep(10 * time.Second)
		stop()
		w.on("m", 1, "gpu")
		if got := w.Snapshot().Lost; len(got) > 0 {
			t.Errorf("lost %v", got)
		}
		if sessions := m.sessions(); len(sessions) != 1 || sessions["gpu"] != 1 {
			t.Errorf("sessions %v", sessions)
		}
		w.LoseDevice("gpu", errors.New("once more"))
		time.Sleep(time.Minute)
		w.on("m", 1, "cpu")
	})
}
