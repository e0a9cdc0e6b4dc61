package host_test

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weftserve/weft/runtime/catalog"
	"github.com/weftserve/weft/runtime/engine"
	"github.com/weftserve/weft/runtime/host"
	"github.com/weftserve/weft/runtime/modelrepo"
	"github.com/weftserve/weft/runtime/tensor"
)

// machines are devices of a test, and the events on them. A run takes time by the clock of a synctest bubble.
type machines struct {
	took time.Duration // by a run; guarded by mu once models are loaded

	mu     sync.Mutex
	free   map[string]int64                      // guarded by mu: bytes; of a device that is not in it nothing is known
	broken map[string]error                      // guarded by mu: the errors that runs on a device end with
	opens  map[string]func() error               // guarded by mu: is called when something is opened on a device
	closes map[string]func()                     // guarded by mu: when a session is closed
	opened map[string]int                        // guarded by mu: sessions that are open
	ran    map[string]int                        // guarded by mu: runs
	open   func(d string) (engine.Opened, error) // of an engine of all of them
}

// newFleet returns a world of devices with one lane each; each may run any model. A device called cpu is the
// last resort.
func newFleet(t *testing.T, took time.Duration, names ...string) (*world, *machines) {
	t.Helper()
	return newFleetOf(t, took, names, func(*host.Config) {})
}

// newFleetOf returns one whose host has another configuration. Its Lanes are those of the scheduler too.
func newFleetOf(t *testing.T, took time.Duration, names []string, change func(*host.Config)) (*world, *machines) {
	t.Helper()
	m := &machines{
		took: took, free: map[string]int64{}, broken: map[string]error{}, opens: map[string]func() error{},
		closes: map[string]func(){},
		opened: map[string]int{}, ran: map[string]int{},
	}
	m.open = m.engine(double)
	w := newWorldOn(t, 1, names, func(c *host.Config) {
		c.Sites = func(modelrepo.Version, *modelrepo.Manifest) (all []host.Site, _ error) {
			for _, name := range names {
				s := host.Site{Device: name}
				if strings.HasPrefix(name, "cpu") {
					s.Rank = 1
				}
				all = append(all, s)
			}
			return all, nil
		}
		c.FreeMemory = func(device string) (int64, bool) {
			m.mu.Lock()
			defer m.mu.Unlock()
			free, known := m.free[device]
			return free, known
		}
		change(c)
	})
	return w, m
}

// engine returns the function that opens a model on any of the devices.
func (m *machines) engine(f func(row []float32) error) func(device string) (engine.Opened, error) {
	return func(device string) (engine.Opened, error) {
		m.mu.Lock()
		hook := m.opens[device]
		m.mu.Unlock()
		if hook != nil {
			if err := hook(); err != nil {
				return engine.Opened{}, err
			}
		}
		s := &session{fake: perRow(1, f), on: m, device: device}
		run := s.fake.Answer
		s.fake.Answer = func(b *tensor.Batch) error {
			m.mu.Lock()
			took := m.took
			m.mu.Unlock()
			<-time.After(took)
			m.mu.Lock()
			m.ran[device]++
			err := m.broken[device]
			m.mu.Unlock()
			if err != nil {
				return err
			}
			return run(b)
		}
		m.mu.Lock()
		defer m.mu.Unlock()
		m.opened[device]++
		return engine.Opened{Session: s, Device: device, Provider: "fake"}, nil
	}
}

// session is a model on one of the machines.
type session struct {
	*fake

	on     *machines
	device string
}

func (s *session) Close() error {
	s.on.mu.Lock()
	hook := s.on.closes[s.device]
	s.on.opened[s.device]--
	s.on.mu.Unlock()
	if hook != nil {
		hook()
	}
	return s.fake.Close()
}

// breaks makes every further run on a device end as if it were lost.
func (m *machines) breaks(device string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.broken[device] = fmt.Errorf("%s: %w", device, errLost)
}

// runs returns how many runs each device has had since the last call.
func (m *machines) runs() map[string]int {
	m.mu.Lock()
	defer m.mu.Unlock()
	ran := m.ran
	m.ran = map[string]int{}
	return ran
}

// sessions returns how many are open on each device, but for those with none.
func (m *machines) sessions() map[string]int {
	m.mu.Lock()
	defer m.mu.Unlock()
	open := map[string]int{}
	for device, n := range m.opened {
		if n != 0 {
			open[device] = n
		}
	}
	return open
}

// where returns the devices that a version is published on.
func where(v *catalog.Version) (devices []string) {
	for _, r := range v.Replicas {
		devices = append(devices, r.Device)
	}
	return devices
}

func (w *world) on(name string, number int64, devices ...string) {
	w.t.Helper()
	v := w.version(name, number)
	if !slices.Equal(where(v), devices) || v.State != catalog.Ready || v.Device != devices[0] ||
		v.Scheduler != v.Replicas[0].Scheduler {
		w.t.Errorf("%s/%d is %v (%s) on %q, described as on %s; want it ready on %q", name, number, v.State, v.Cause,
			where(v), v.Device, devices)
	}
}

// TestWorkBeforeTheFirstLook: work that a device was asked for before the first look at the loads is not taken for the
// work of a second.
func TestWorkBeforeTheFirstLook(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, m := newFleetOf(t, 100*time.Millisecond, []string{"a", "b"}, func(c *host.Config) {
			anywhere := c.Sites
			c.Sites = func(v modelrepo.Version, m *modelrepo.Manifest) ([]host.Site, error) {
				if strings.Contains(v.Path, "pinned") {
					return []host.Site{{Device: "a"}}, nil
				}
				return anywhere(v, m)
			}
		})
		w.add("pinned", 1, m.open, tiny)
		answered(t, w, w.load("pinned"), 50)
		w.add("first", 1, m.open, tiny)
		w.load("first") // the loads are looked at from here on
		w.on("first", 1, "b")
		time.Sleep(1500 * time.Millisecond) // one look
		w.add("second", 1, m.open, tiny)
		w.load("second")
		w.on("second", 1, "a") // on which nothing was asked for since
	})
}

// TestLoadsAreOfTheTimeThatPassed, also where a look comes late, for example because the machine is busy.
func TestLoadsAreOfTheTimeThatPassed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var late atomic.Bool
		w, m := newFleetOf(t, 100*time.Millisecond, []string{"a", "b"}, func(c *host.Config) {
			sites := c.Sites
			c.Sites = func(v modelrepo.Version, m *modelrepo.Manifest) ([]host.Site, error) {
				if late.Load() {
					time.Sleep(2500 * time.Millisecond)
				}
				return sites(v, m)
			}
		})
		w.add("m", 1, m.open, replicated(modelrepo.AutoReplicas))
		v := w.load("m")
		late.Store(true)
		for begin := time.Now(); time.Since(begin) < time.Minute; time.Sleep(150 * time.Millisecond) {
			answered(t, w, v, 1)
			if load := w.Load("a"); time.Since(begin) > 30*time.Second && (load < 0.3 || load > 0.5) {
				t.Errorf("the load is %.2f, want 0.40", load)
			}
		}
	})
}
