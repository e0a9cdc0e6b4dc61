package host_test

import (
	"context"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weftserve/weft/runtime/catalog"
	"github.com/weftserve/weft/runtime/host"
	"github.com/weftserve/weft/runtime/modelfile"
	"github.com/weftserve/weft/runtime/modelrepo"
)

// hang has further runs, on any device, take three hours, until the returned function is called.
func (m *machines) hang() (end func()) {
	m.mu.Lock()
	defer m.mu.Unlock()
	before := m.took
	m.took = 3 * time.Hour
	return func() {
		m.mu.Lock()
		defer m.mu.Unlock()
		m.took = before
	}
}

// hang sends v a request whose run hangs.
func (f *fates) hang(m *machines, v *catalog.Version) {
	end := m.hang()
	f.send(v, func(c *catalog.Call) { c.Limit = time.Now().Add(4 * time.Hour) })
	end()
}

// TestUnloadingOnADeviceThatHangs: a version that is being unloaded when its device is lost holds up neither itself nor
// the others of its model, whether a run on it or its session does not end.
func TestUnloadingOnADeviceThatHangs(t *testing.T) {
	for _, c := range []struct {
		name string
		run  bool
		left string // in the log, besides that of m/2
	}{
		{"run", true, `model "m" version 1: a run: it does not end on the lost device gpu and is left behind`},
		{"session", false, `model "m" version 1: close: it does not end on the lost device gpu and is left behind`},
	} {
		synctest.Test(t, func(t *testing.T) {
			w, m := newFleet(t, time.Millisecond, "gpu", "cpu")
			w.add("m", 1, m.open, tiny)
			w.add("m", 2, m.open, nil)
			w.choose("m", 1, 2)
			v := w.load("m")
			w.on("m", 1, "gpu")
			w.on("m", 2, "gpu")
			f := w.fates()
			if c.run {
				f.hang(m, v)
			} else {
				m.mu.Lock()
				m.closes["gpu"] = func() { time.Sleep(3 * time.Hour) }
				m.mu.Unlock()
			}
			w.choose("m", 2)
			w.Follow(w.listing)
			time.Sleep(10 * time.Second)
			w.states("m/1 unloading", "m/2 ready")
			w.LoseDevice("gpu", errors.New("the driver says so"))
			time.Sleep(6 * time.Second)
			w.states("m/2 ready")
			w.on("m", 2, "cpu")
			if n := len(w.logs.Event("version_unload_failed")); n != 1 ||
				len(w.logs.Lines(c.left)) == 0 {
				t.Errorf("%s: logged %d times that it is left behind, with %q", c.name, n, w.logs.Lines("cause"))
			}
			answered(t, w, w.version("m", 2), 1)
			time.Sleep(4 * time.Hour) // all has ended by then
			f.callers.Wait()
			if n, got := w.Counts(), m.sessions(); n.MemoryInUse != 1<<20 ||
				!maps.Equal(got, map[string]int{"cpu": 1}) || len(w.sched.State().Versions) != 1 {
				t.Errorf("%s: in the end %d bytes, sessions %v, and %d versions in the scheduler", c.name,
					n.MemoryInUse, got, len(w.sched.State().Versions))
			}
		})
	}
}

// TestOpeningOnADeviceThatHangs: models whose opening does not end on a lost device go to another, and take no place
// for opening from others; a late result is closed.
func TestOpeningOnADeviceThatHangs(t *testing.T) {
	for _, c := range []struct {
		name string
		late func() error
	}{
		{"session", func() error { return nil }},
		{"error", func() error { return errors.New("late") }},
		{"lost", func() error { return errLost }},
		{"panic", func() error { panic("driver bug") }},
	} {
		synctest.Test(t, func(t *testing.T) {
			w, m := newFleetOf(t, time.Millisecond, []string{"gpu", "cpu"},
				func(c *host.Config) { c.MemoryBudget = 3 << 20 })
			m.opens["gpu"] = func() error {
				time.Sleep(3 * time.Hour)
				return c.late()
			}
			w.add("a", 1, m.open, tiny)
			w.add("b", 1, m.open, tiny)
			w.Follow(w.listing)
			time.Sleep(time.Second) // in a while they would give their places away
			w.states("a/1 loading", "b/1 loading")
			w.LoseDevice("gpu", errors.New("the driver says so"))
			w.add("c", 1, m.open, tiny)
			w.Follow(w.listing)
			time.Sleep(6 * time.Second)
			for _, name := range []string{"a", "b", "c"} {
				w.on(name, 1, "cpu")
			}
			time.Sleep(4 * time.Hour)
			if n, got := w.Counts(), m.sessions(); n.MemoryInUse != 3<<20 || n.LoadFailures != 0 ||
				!maps.Equal(got, map[string]int{"cpu": 3}) {
				t.Errorf("%s: in the end %d bytes, %d failures, sessions %v", c.name, n.MemoryInUse, n.LoadFailures,
					got)
			}
			if n := len(w.logs.Event(lostEvent)); n != 1 {
				t.Errorf("%s: the loss was logged %d times", c.name, n)
			}
		})
	}
}

// TestOpeningBehindOthersThatHang: a version that waits to be opened on a device is not opened there once that is lost.
func TestOpeningBehindOthersThatHang(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, m := newFleet(t, time.Millisecond, "gpu", "cpu")
		opens := atomic.Int32{}
		m.opens["gpu"] = func() error {
			opens.Add(1)
			time.Sleep(3 * time.Hour)
			return nil
		}
		names := []string{"a", "b", "c", "d", "e", "f", "g", "h"}
		for _, name := range names {
			w.add(name, 1, m.open, tiny)
		}
		w.Follow(w.listing)
		time.Sleep(time.Second)
		w.LoseDevice("gpu", errors.New("the driver says so"))
		time.Sleep(6 * time.Second)
		for _, name := range names {
			w.on(name, 1, "cpu")
		}
		if n := opens.Load(); n != 2 {
			t.Errorf("%d were opened on the GPU, want those 2 that had begun", n)
		}
		time.Sleep(4 * time.Hour)
	})
}

// TestOpeningOnTheOnlyDeviceThatHangs: the version says what happened.
func TestOpeningOnTheOnlyDeviceThatHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, m := newFleet(t, time.Millisecond, "gpu")
		m.opens["gpu"] = func() error {
			time.Sleep(time.Hour)
			return nil
		}
		w.add("m", 1, m.open, tiny)
		w.Follow(w.listing)
		time.Sleep(time.Second)
		w.LoseDevice("gpu", errors.New("the driver says so"))
		time.Sleep(5 * time.Second)
		synctest.Wait()
		want := "the device gpu was lost (the driver says so) while the model was opened there: it does not end on " +
			"the lost device gpu and is left behind"
		if v := w.version("m", 1); v.State != catalog.Failed || !strings.Contains(v.Cause, want) {
			t.Errorf("%v: %q, want %q in it", v.State, v.Cause, want)
		}
		time.Sleep(2 * time.Hour)
		if n, got := w.Counts(), m.sessions(); n.MemoryInUse != 0 || len(got) != 0 {
			t.Errorf("in the end %d bytes, sessions %v", n.MemoryInUse, got)
		}
	})
}

// TestATrialOnADeviceThatHangs: a made-up run that does not end on a lost device, or waits behind one of another model,
// does not keep its model from being loaded elsewhere, nor count for the budget of memory; and in the end it leaves
// nothing there.
func TestATrialOnADeviceThatHangs(t *testing.T) {
	for _, c := range []struct {
		name   string
		hangs  int64 // which run of m
		behind bool
	}{{"first run", 1, false}, {"last run", 4, false}, {"behind another", 0, true}} {
		synctest.Test(t, func(t *testing.T) {
			resident := 1
			if c.behind {
				resident = 2
			}
			w, m := newFleetOf(t, time.Millisecond, []string{"gpu", "cpu"},
				func(c *host.Config) { c.MemoryBudget = int64(resident) << 20 })
			f := w.fates()
			if c.behind {
				w.add("other", 1, m.open, tiny)
				other := w.load("other")
				f.hang(m, other)
			}
			var runs atomic.Int64
			w.add("m", 1, m.engine(func(row []float32) error {
				if runs.Add(1) == c.hangs {
					time.Sleep(3 * time.Hour)
				}
				return double(row)
			}), tiny)
			w.Follow(w.listing)
			time.Sleep(time.Minute)
			if v := w.version("m", 1); v.State != catalog.Loading {
				t.Errorf("%s: it is %v before the loss", c.name, v.State)
			}
			w.LoseDevice("gpu", errors.New("the driver says so"))
			time.Sleep(6 * time.Second)
			w.on("m", 1, "cpu")
			answered(t, w, w.version("m", 1), 1)
			if got := m.sessions(); !maps.Equal(got, map[string]int{"gpu": 1, "cpu": resident}) {
				t.Errorf("%s: sessions %v, want the one on gpu that hangs", c.name, got)
			}
			time.Sleep(4 * time.Hour)
			f.callers.Wait()
			n, got := w.Counts(), m.sessions()
			if n.MemoryInUse != int64(resident)<<20 || n.LoadFailures != 0 ||
				!maps.Equal(got, map[string]int{"cpu": resident}) {
				t.Errorf("%s: in the end %d bytes, %d failures, sessions %v", c.name, n.MemoryInUse, n.LoadFailures,
					got)
			}
			if v, f := w.sched.State().Versions, w.flows(); len(v) != resident || len(f) != resident {
				t.Errorf("%s: %d versions and %d flows in the scheduler", c.name, len(v), len(f))
			}
		})
	}
}

// TestTheCopyBehindATrialThatHangs: a trial that is left behind on a lost device gives up its use of the version's
// private copy, but not that of the replica elsewhere when it ends after all.
func TestTheCopyBehindATrialThatHangs(t *testing.T) {
	dir, err := filepath.Abs("../../examples/models/cartpole")
	if err != nil {
		t.Fatal(err)
	}
	synctest.Test(t, func(t *testing.T) {
		var copies []*os.File
		w, m := newFleetOf(t, time.Millisecond, []string{"gpu", "cpu"}, func(c *host.Config) {
			c.Read = func(ctx context.Context, _ modelrepo.Version, told func(done, of int64)) (*modelfile.Files, error) {
				place := modelfile.Place{Repository: filepath.Dir(dir), Dir: filepath.Join(dir, "3")}
				files, err := modelfile.Read(ctx, place, told)
				if err == nil {
					copies = append(copies, files.Copy())
				}
				return files, err
			}
		})
		var runs atomic.Int64
		w.add("m", 1, m.engine(func(row []float32) error {
			if runs.Add(1) == 1 {
				time.Sleep(3 * time.Hour)
			}
			return double(row)
		}), tiny)
		w.Follow(w.listing)
		time.Sleep(time.Minute)
		w.LoseDevice("gpu", errors.New("the driver says so"))
		time.Sleep(6 * time.Second)
		w.on("m", 1, "cpu")
		time.Sleep(4 * time.Hour)
		if got := m.sessions(); !maps.Equal(got, map[string]int{"cpu": 1}) {
			t.Errorf("sessions %v, want that of the trial closed", got)
		}
		var open []bool
		for _, file := range copies {
			_, err := file.Stat()
			open = append(open, err == nil)
		}
		if !slices.Equal(open, []bool{false, true}) {
			t.Errorf("copies that are open: %v, want the second of two", open)
		}
	})
}

// TestTheEndWithARunThatHangs: Close says that it leaves one behind on a lost device, and does not wait for it.
func TestTheEndWithARunThatHangs(t *testing.T) {
	for _, before := range []time.Duration{0, time.Minute} { // the loss is known
		synctest.Test(t, func(t *testing.T) {
			w, m := newFleet(t, time.Millisecond, "gpu", "cpu")
			w.add("m", 1, m.open, tiny)
			v := w.load("m")
			f := w.fates()
			f.hang(m, v)
			closed := make(chan error)
			if before == 0 {
				go func() { closed <- w.Close(context.Background()) }()
				time.Sleep(time.Minute)
			}
			w.LoseDevice("gpu", errors.New("the driver says so"))
			time.Sleep(before)
			begin := time.Now()
			if before > 0 {
				go func() { closed <- w.Close(context.Background()) }()
			}
			err := <-closed
			if took := time.Since(begin); took != 5*time.Second || err == nil ||
				!strings.Contains(err.Error(), "a run: it does not end on the lost device gpu") {
				t.Errorf("loss known %v before: Close ended %v after it: %v", before, took, err)
			}
			f.callers.Wait()
		})
	}
}
