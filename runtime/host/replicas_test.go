package host_test

import (
	"maps"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weftserve/weft/runtime/catalog"
	"github.com/weftserve/weft/runtime/engine"
	"github.com/weftserve/weft/runtime/host"
	"github.com/weftserve/weft/runtime/modelrepo"
)

// replicated is a tiny model on so many devices.
func replicated(n modelrepo.Replicas) func(*modelrepo.Manifest) {
	return func(m *modelrepo.Manifest) {
		tiny(m)
		m.Replicas = n
	}
}

// answered sends so many requests at once and waits for their answers.
func answered(t *testing.T, w *world, v *catalog.Version, n int) {
	t.Helper()
	var callers sync.WaitGroup
	for i := range n {
		callers.Go(func() {
			c := ask(v, 1, float32(i))
			if err := w.Predict(t.Context(), c); err != nil || values(c.Results[0])[0] != 2*float32(i) {
				t.Errorf("request %d: %v, %v", i, c.Results, err)
			}
		})
	}
	callers.Wait()
}

const scarce = "replica_unavailable"

// TestReplicasFollowTheManifest: up, no further than there are devices, and down again, without a request that fails.
func TestReplicasFollowTheManifest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, m := newFleet(t, 10*time.Millisecond, "a", "b", "cpu")
		w.add("m", 1, m.open, replicated(1))
		v := w.load("m")
		w.on("m", 1, "a")
		w.edit("m", func(m *modelrepo.Manifest) { m.Replicas = 3 })
		w.load("m")
		w.on("m", 1, "a", "b") // the processor is the last resort only
		if got := w.version("m",
			1).Scarce; got != `2 of 3 replicas: there is no further device for model "m" version 1, which is on a and b already; name more of them in --devices, or set replicas to 2 in the model's model.yaml` {
			t.Errorf("scarce: %q", got)
		}
		before := w.Snapshot().Revision
		time.Sleep(10 * time.Minute)
		if n := len(w.logs.Event(scarce)); n != 1 {
			t.Errorf("that there is no further device is logged %d times", n)
		}
		if now := w.Snapshot().Revision; now != before {
			t.Errorf("revision %d became %d although no device came", before, now)
		}
		// A change that moves versions in the scheduler moves both.
		w.edit("m", func(m *modelrepo.Manifest) { m.Weight = 3 })
		w.load("m")
		synctest.Wait()
		w.on("m", 1, "a", "b")
		weights := map[string]float64{}
		for _, f := range w.flows() {
			weights[f.Device] = f.Weight
		}
		if want := map[string]float64{"a": 3, "b": 3}; !maps.Equal(weights, want) {
			t.Errorf("flows by device: %v, want %v", weights, want)
		}
		if n := len(w.sched.State().Versions); n != 2 {
			t.Errorf("%d versions in the scheduler, want 2", n)
		}

		var callers sync.WaitGroup
		callers.Go(func() { answered(t, w, v, 20) }) // by the version as it was published first
		synctest.Wait()
		w.edit("m", func(m *modelrepo.Manifest) { m.Replicas = 1 })
		w.load("m")
		callers.Wait()
		synctest.Wait()
		w.on("m", 1, "a")
		if got := m.sessions(); !maps.Equal(got, map[string]int{"a": 1}) || w.Counts().MemoryInUse != 1<<20 {
			t.Errorf("open sessions: %v, memory %d", got, w.Counts().MemoryInUse)
		}
		if w.version("m", 1).Scarce != "" {
			t.Errorf("scarce: %q", w.version("m", 1).Scarce)
		}
		w.listing = modelrepo.Listing{}
		if err := w.Reconcile(t.Context(), w.listing); err != nil {
			t.Fatal(err)
		}
		if n := w.Counts(); n.Unloads != 1 || n.MemoryInUse != 0 || len(m.sessions()) != 0 {
			t.Errorf("without a model: %+v, sessions %v", n, m.sessions())
		}
	})
}

// TestAReplacementHasAsManyReplicas: from its first request on, because one could not answer as many requests as two
// did.
func TestAReplacementHasAsManyReplicas(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, m := newFleet(t, time.Millisecond, "a", "b", "c")
		w.add("m", 1, m.open, replicated(2))
		w.load("m")
		first := w.version("m", 1)
		w.published()
		w.put("m", 1, m.open, "second")
		w.load("m")
		synctest.Wait()
		for _, s := range w.published() {
			if v := s.Model("m").Version(1); v.State != catalog.Ready || len(v.Replicas) != 2 {
				t.Errorf("it was published as %v with %d replicas", v.State, len(v.Replicas))
			}
		}
		w.on("m", 1, "a", "c") // where it was, and where there is most room
		if now := w.version("m", 1); now.Scheduler == first.Scheduler {
			t.Error("it was not replaced")
		}
		if n := w.Counts(); n.Loads != 2 || n.Unloads != 1 || n.MemoryInUse != 2<<20 {
			t.Errorf("counted %+v", n)
		}
	})
}

// TestAutomaticReplicasWhereRequestsAreRefused: with a short queue nothing much ever waits.
func TestAutomaticReplicasWhereRequestsAreRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, m := newFleet(t, 10*time.Millisecond, "a", "b")
		w.add("m", 1, m.open, func(m *modelrepo.Manifest) {
			replicated(modelrepo.AutoReplicas)(m)
			m.Batching.MaxQueue = 1
		})
		v := w.load("m")
		stop := w.keepAsking(v, 4)
		time.Sleep(5 * time.Second)
		w.on("m", 1, "a", "b")
		stop()
	})
}

// TestAutomaticReplicasOfTwoLanes: a device whose lanes share its time has no more of it than with one, so that a
// version that would take all of the time of one keeps a second.
func TestAutomaticReplicasOfTwoLanes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, m := newFleetOf(t, 10*time.Millisecond, []string{"a", "b"}, func(c *host.Config) {
			c.Lanes = map[string]int{"a": 2, "b": 2}
		})
		w.add("m", 1, m.open, replicated(modelrepo.AutoReplicas))
		v := w.load("m")
		heavy := w.keepAsking(v, 9)
		time.Sleep(5 * time.Second)
		w.on("m", 1, "a") // 90 ms of device time wait
		heavy()
		heavy = w.keepAsking(v, 12)
		time.Sleep(5 * time.Second)
		w.on("m", 1, "a", "b") // 120 ms waited
		heavy()
		for start := time.Now(); time.Since(start) < 3*time.Minute; time.Sleep(time.Millisecond) {
			answered(t, w, v, 1)
		}
		w.on("m", 1, "a", "b") // nine tenths of the time of one are used
	})
}

// counting is a session that reports how its runs were executed.
type counting struct {
	engine.Session

	failures atomic.Uint64
}

func (c *counting) Stats() engine.Stats {
	n := c.failures.Load()
	return engine.Stats{Graphs: engine.Graphs{Known: true, Replayed: 10 * n, Eager: 3 * n, Failures: n}}
}

// TestGraphCountersNeverFall: neither when a replica goes, while it answers the last it accepted and later, nor when
// one is moved.
func TestGraphCountersNeverFall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, m := newFleet(t, time.Second, "a", "b")
		on := map[string]*counting{}
		w.add("m", 1, func(device string) (engine.Opened, error) {
			o, err := m.open(device)
			on[device] = &counting{Session: o.Session}
			o.Session = on[device]
			return o, err
		}, replicated(2))
		v := w.load("m")
		want := func(failures uint64) {
			t.Helper()
			v := w.version("m", 1)
			if l := v.Live(); l.GraphFailures != failures || l.Replayed != 10*failures || l.Eager != 3*failures {
				t.Errorf("counted %+v; want %d failures", l, failures)
			}
		}
		on["a"].failures.Store(2)
		on["b"].failures.Store(5)
		want(7)
		w.edit("m", func(m *modelrepo.Manifest) { m.Weight = 3 })
		w.load("m")
		synctest.Wait()
		want(7)
		var callers sync.WaitGroup
		callers.Go(func() { answered(t, w, v, 4) })
		synctest.Wait()
		w.edit("m", func(m *modelrepo.Manifest) { m.Replicas = 1 })
		w.load("m")
		w.on("m", 1, "a")
		on["b"].failures.Store(6) // by its accepted requests
		want(8)
		callers.Wait()
		synctest.Wait()
		for _, replicas := range []modelrepo.Replicas{2, 1, 2} {
			w.edit("m", func(m *modelrepo.Manifest) { m.Replicas = replicas })
			w.load("m")
			want(8)
		}
		on["b"].failures.Store(1)
		want(9)
	})
}
