package host_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/weftserve/weft/runtime/catalog"
	"github.com/weftserve/weft/runtime/engine"
	"github.com/weftserve/weft/runtime/host"
	"github.com/weftserve/weft/runtime/modelrepo"
)

// sized puts a version into a directory of its own with files of so many bytes.
func (w *world) sized(name string, number, bytes int64) {
	w.t.Helper()
	dir := w.t.TempDir()
	path := filepath.Join(dir, modelrepo.ModelFile)
	for file, size := range map[string]int64{path: 1 << 10, filepath.Join(dir, "weights"): bytes - 1<<10} {
		f, err := os.Create(file)
		if err != nil {
			w.t.Fatal(err)
		}
		if err := errors.Join(f.Truncate(size), f.Close()); err != nil {
			w.t.Fatal(err)
		}
	}
	w.change(name, func(m *modelrepo.Model) {
		for _, list := range [][]modelrepo.Version{m.Versions, m.Selected} {
			for i := range list {
				if v := &list[i]; v.Number == number {
					w.engine(path, w.engines[v.Path])
					v.Dir, v.Path = dir, path
				}
			}
		}
	})
}

// TestMemoryBudget: a load that exceeds it is refused with the figures, and serving versions go on.
func TestMemoryBudget(t *testing.T) {
	w := newWorldOf(t, 1, func(c *host.Config) { c.MemoryBudget = 10 << 20 })
	w.add("a", 1, times(1), nil)
	w.sized("a", 1, 4<<20)
	w.add("s", 1, times(1), func(m *modelrepo.Manifest) { m.Synth = &modelrepo.Synth{} })
	w.reconcile()
	if n := w.Counts(); n.MemoryInUse != 7<<20 || n.MemoryBudget != 10<<20 {
		t.Fatalf("counted %+v, want 7 MiB in use", n)
	}
	w.add("a", 2, times(2), nil)
	w.sized("a", 2, 3<<20)
	w.choose("a", 2)
	w.reconcile()
	w.states("a/1 ready", "a/2 failed", "s/1 ready")
	if cause := w.version("a", 2).Cause; strings.Contains(cause, "s/1") {
		t.Errorf("the cause names a model that not all who read it may see: %s", cause)
	}
	e, is := errors.AsType[*catalog.MemoryError](w.LoadVersion(t.Context(), "a", 2))
	if !is {
		t.Fatal("LoadVersion does not say that memory does not suffice")
	}
	want := &catalog.MemoryError{
		Model: "a", Version: 2, Need: 4.5 * (1 << 20), InUse: 7 << 20, Budget: 10 << 20,
		Residents: []catalog.Resident{
			{Model: "a", Version: 1, Bytes: 6 << 20},
			{Model: "s", Version: 1, Bytes: 1 << 20},
		},
	}
	if diff := cmp.Diff(want, e); diff != "" {
		t.Errorf("error (-want +got):\n%s", diff)
	}
	w.listing = modelrepo.Listing{}
	w.reconcile()
	if n := w.Counts(); n.MemoryInUse != 0 {
		t.Errorf("%d bytes are in use without a version", n.MemoryInUse)
	}
}

// TestMemoryOfPipelines: a joined model counts as the models of its steps, once where they are one version.
func TestMemoryOfPipelines(t *testing.T) {
	w := newWorldOf(t, 1, func(c *host.Config) { c.MemoryBudget = 20 << 20 })
	for i, bytes := range []int64{4 << 20, 2 << 20} {
		w.add(fmt.Sprintf("m%d", i), 1, line{1, 0}.engine(), trustBatches)
		w.sized(fmt.Sprintf("m%d", i), 1, bytes)
	}
	w.addPipeline(`
steps:
- {name: a, model: m0, version: 1, inputs: {x: x}}
- {name: b, model: m1, version: 1, inputs: {x: a.y}}
- {name: c, model: m0, version: 1, inputs: {x: b.y}}
outputs: {y: c.y}
`)
	w.reconcile()
	w.states("m0/1 ready", "m1/1 ready", "p/1 ready")
	if n := w.Counts(); n.MemoryInUse != 18<<20 {
		t.Errorf("counted %+v, want 18 MiB in use: 9 of the steps' models, and as many of the joined one", n)
	}
}

// TestMemoryOfAFailedLoad: a version that waits for memory gets it at once.
func TestMemoryOfAFailedLoad(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorldOf(t, 1, func(c *host.Config) { c.MemoryBudget = 10 << 20 })
		refused := make(chan struct{})
		w.add("a", 1, func(context.Context) (engine.Opened, error) {
			<-refused
			return engine.Opened{}, errors.New("cut short")
		}, nil)
		w.sized("a", 1, 4<<20)
		w.Follow(w.listing)
		synctest.Wait()
		w.add("b", 1, times(1), nil)
		w.sized("b", 1, 4<<20)
		w.Follow(w.listing)
		synctest.Wait()
		w.states("a/1 loading", "b/1 failed")
		close(refused)
		synctest.Wait()
		w.states("a/1 failed", "b/1 ready")
	})
}

// TestMemoryBudgetChanges: versions that have room by a larger budget are tried again at once, and resident ones stay
// by a smaller one.
func TestMemoryBudgetChanges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorldOf(t, 1, func(c *host.Config) { c.MemoryBudget = 10 << 20 })
		for _, name := range []string{"a", "b", "c"} {
			w.add(name, 1, times(1), nil)
			w.sized(name, 1, 4<<20)
			w.Follow(w.listing)
			synctest.Wait()
		}
		w.states("a/1 ready", "b/1 failed", "c/1 failed")
		w.SetMemoryBudget(12 << 20)
		synctest.Wait()
		if n := w.Counts(); n.MemoryInUse != 12<<20 || n.MemoryBudget != 12<<20 {
			t.Errorf("counted %+v, want 12 MiB in use", n)
		}
		w.SetMemoryBudget(1 << 20)
		synctest.Wait()
		if n := w.Counts(); n.MemoryInUse != 12<<20 {
			t.Errorf("counted %+v, want 12 MiB in use still", n)
		}
		w.SetMemoryBudget(0)
		synctest.Wait()
		w.states("a/1 ready", "b/1 ready", "c/1 ready")
	})
}

// TestMemoryOfALostDevice is free at once, for versions that were there and for versions that wait, also where nothing
// there comes to an end. It is given back once, although a version that was moved in the scheduler is there twice.
func TestMemoryOfALostDevice(t *testing.T) {
	const one = 1 << 20
	synctest.Test(t, func(t *testing.T) {
		w, m := newFleetOf(t, time.Millisecond, []string{"a", "b"}, func(c *host.Config) { c.MemoryBudget = 3 * one })
		m.closes["a"] = func() { time.Sleep(time.Hour) }
		w.add("m", 1, m.open, tiny)
		v := w.load("m")
		w.add("pair", 1, m.open, replicated(2))
		w.load("pair")
		w.on("m", 1, "a")
		w.add("waits", 1, m.open, tiny)
		w.load("waits")
		w.states("m/1 ready", "pair/1 ready", "waits/1 failed")

		m.mu.Lock()
		m.took = time.Hour
		m.mu.Unlock()
		f := w.fates()
		f.send(v, func(c *catalog.Call) { c.Limit = time.Now().Add(2 * time.Hour) })
		m.mu.Lock()
		m.took = 0
		m.mu.Unlock()
		w.edit("m", func(m *modelrepo.Manifest) { m.Weight = 2 })
		w.load("m")
		want := func(when string, bytes int64) {
			t.Helper()
			if n := w.Counts().MemoryInUse; n != bytes {
				t.Errorf("%s %d bytes are in use, want %d", when, n, bytes)
			}
		}
		want("before", 3*one)

		w.LoseDevice("a", errors.New("fell off the bus"))
		time.Sleep(time.Millisecond)
		synctest.Wait()
		w.on("m", 1, "b")
		w.on("pair", 1, "b")
		w.on("waits", 1, "b")
		want("after it was lost", 3*one)
		f.want(map[string]int{"": 1})
		time.Sleep(2 * time.Hour) // all has come to an end
		want("in the end", 3*one)
		w.listing = modelrepo.Listing{Models: w.listing.Models[:1]}
		w.load("m")
		synctest.Wait()
		want("with one of three", one)
	})
}
