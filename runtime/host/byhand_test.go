package host_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/weftserve/weft/runtime/catalog"
	"github.com/weftserve/weft/runtime/host"
	"github.com/weftserve/weft/runtime/modelrepo"
)

func TestByHand(t *testing.T) {
	w := newWorld(t, 1)
	first := times(1)
	w.add("m", 1, first, nil)
	w.add("m", 2, times(2), nil)
	w.choose("m", 2)
	w.reconcile()
	w.states("m/2 ready")
	ok := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	ok(w.LoadVersion(t.Context(), "m", 1))
	ok(w.LoadVersion(t.Context(), "m", 1))
	w.answers(w.version("m", 1), 3)
	w.reconcile()
	w.states("m/1 ready", "m/2 ready")

	// The policy does not bring back a version that was unloaded by override either, until it changes.
	ok(w.UnloadVersion(t.Context(), "m", 2))
	ok(w.UnloadVersion(t.Context(), "m", 1))
	w.reconcile()
	w.states("m ")
	if first.Closed() != 1 {
		t.Errorf("closed %d times", first.Closed())
	}
	w.put("m", 2, times(2), "second")
	ok(w.LoadVersion(t.Context(), "m", 2))
	w.states("m/2 ready")
	ok(w.UnloadVersion(t.Context(), "m", 2))
	w.put("m", 2, times(2), "third")
	w.edit("m", func(m *modelrepo.Manifest) { m.Versions.Policy.Latest++ })
	w.reconcile()
	w.states("m/2 ready")

	for name, err := range map[string]error{
		"loading an unknown version":   w.LoadVersion(t.Context(), "m", 9),
		"loading an unknown model":     w.LoadVersion(t.Context(), "n", 1),
		"unloading an unknown version": w.UnloadVersion(t.Context(), "m", 9),
		"unloading an unknown model":   w.UnloadVersion(t.Context(), "n", 1),
	} {
		if !errors.Is(err, catalog.ErrUnknown) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// onDisk gives a version a directory of its own, as far as that matters here.
func (w *world) onDisk(name string, number int64) (dir string) {
	dir = w.t.TempDir()
	w.change(name, func(m *modelrepo.Model) {
		for _, list := range [][]modelrepo.Version{m.Versions, m.Selected} {
			for i := range list {
				if v := &list[i]; v.Number == number {
					v.Dir = dir
				}
			}
		}
	})
	return dir
}

// TestLoadVersionLooksAtTheDisk: a version that no listing has shown is loaded, and stays while it is there.
func TestLoadVersionLooksAtTheDisk(t *testing.T) {
	var w *world
	var disk modelrepo.Listing
	w = newWorldOf(t, 1, func(c *host.Config) { c.Scan = func() modelrepo.Listing { return disk } })
	w.add("m", 1, times(1), nil)
	w.reconcile()
	old := w.listing
	load := func(name string, number int64) error {
		disk = w.listing
		return w.LoadVersion(t.Context(), name, number)
	}

	w.add("m", 2, times(2), nil)
	dir := w.onDisk("m", 2)
	w.choose("m", 1)
	if err := load("m", 2); err != nil {
		t.Fatal(err)
	}
	w.answers(w.version("m", 2), 6)
	current := w.listing
	w.listing = old // it was made before
	w.reconcile()
	w.states("m/1 ready", "m/2 ready")
	if err := w.UnloadVersion(t.Context(), "m", 2); err != nil {
		t.Fatal(err)
	}
	w.listing = current
	w.reconcile()
	w.states("m/1 ready")
	w.put("m", 2, times(2), "first")
	if err := load("m", 2); err != nil {
		t.Fatal(err)
	}
	w.listing = old
	if err := os.Remove(dir); err != nil {
		t.Fatal(err)
	}
	w.reconcile()
	w.states("m/1 ready")

	w.put("m", 1, times(5), "second")
	if err := load("m", 1); err != nil {
		t.Fatal(err)
	}
	w.answers(w.version("m", 1), 15)
	w.add("n", 1, times(1), nil)
	if err := load("n", 1); err != nil {
		t.Fatal(err)
	}
	w.states("m/1 ready", "n/1 ready")

	for name, fault := range map[string]func(*modelrepo.Model){
		"model.yaml:1: unknown key": func(m *modelrepo.Model) { m.Err = errors.New("model.yaml:1: unknown key") },
		"no model.onnx":             func(m *modelrepo.Model) { m.Versions[0].Err = errors.New("no model.onnx") },
	} {
		good := w.listing
		w.change("m", fault)
		e, is := errors.AsType[*catalog.LoadError](load("m", 1))
		if !is || e.Model != "m" || e.Version != 1 || e.Cause.Error() != name {
			t.Errorf("%s: %v", name, e)
		}
		w.listing = good
	}
	if err := load("m", 7); !errors.Is(err, catalog.ErrUnknown) ||
		!strings.Contains(err.Error(), "the repository has [1] of the model") {
		t.Errorf("a version that is not there: %v", err)
	}
	w.answers(w.version("m", 1), 15)
}

// TestReplacedVersionsDrainInTheBackground: however long their accepted requests take, others are loaded meanwhile.
func TestReplacedVersionsDrainInTheBackground(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 4)
		models := []string{"m", "n", "o"} // more than are loaded at once
		var olds []*fake
		var valves []*valve
		for _, name := range models {
			f := times(2)
			olds, valves = append(olds, f), append(valves, withValve(f))
			w.add(name, 1, f, nil)
		}
		w.reconcile()
		answered := make(chan error, len(models))
		for i, name := range models {
			valves[i].closed = true
			call := ask(w.version(name, 1), 1, 3)
			go func() {
				err := w.Predict(t.Context(), call)
				if err == nil && values(call.Results[0])[0] != 6 {
					err = errors.New("the request in flight was answered by another version")
				}
				answered <- err
			}()
			<-valves[i].entered
			w.put(name, 1, times(5), "second")
		}
		if err := w.Reconcile(t.Context(), w.listing); err != nil {
			t.Fatal(err)
		}
		for i, name := range models {
			w.answers(w.version(name, 1), 15)
			if olds[i].Closed() != 0 {
				t.Errorf("%s was closed while it runs", name)
			}
		}
		for i := range models {
			valves[i].open <- struct{}{}
		}
		for range models {
			if err := <-answered; err != nil {
				t.Error(err)
			}
		}
		synctest.Wait()
		for i, name := range models {
			if olds[i].Closed() != 1 {
				t.Errorf("%s was closed %d times", name, olds[i].Closed())
			}
		}
	})
}

// TestAwaitVersion: what a listing says that came after the call counts, not another version of that number that was
// there before. What is still being copied is waited for.
func TestAwaitVersion(t *testing.T) {
	var w *world
	var comes, later func()
	w = newWorldOf(t, 1, func(c *host.Config) {
		c.Looked = func(context.Context) error {
			comes()
			w.Follow(w.listing)
			go later()
			return nil
		}
	})
	w.add("m", 1, times(1), nil)
	w.reconcile()
	broken := func(err error) func() { return func() { w.change("m", func(m *modelrepo.Model) { m.Err = err }) } }
	for _, c := range []struct {
		what         string
		number       int64
		comes, later func()
		served       bool
		answers      float32 // 0: nothing is asked
		wants        string
	}{
		{what: "replaced", number: 1, comes: func() { w.put("m", 1, times(2), "second") }, served: true, answers: 6},
		{what: "new", number: 2, comes: func() { w.add("m", 2, times(3), nil) }, served: true, answers: 9},
		{what: "not selected", number: 3, comes: func() {
			w.add("m", 3, times(4), nil)
			w.choose("m", 2)
		}},
		{what: "not there", number: 9},
		{what: "faulty", number: 4, comes: func() {
			w.add("m", 4, errors.New("no such operator"), nil)
		}, served: true, wants: "no such operator"},
		{what: "of a faulty model", number: 2, comes: broken(errors.New("no such setting")), wants: "no such setting"},
		{what: "copied", number: 5, comes: func() {
			w.add("m", 5, times(5), nil)
			broken(fmt.Errorf("model.yaml is %w", modelrepo.ErrCopying))()
		}, later: func() {
			broken(nil)()
			w.Follow(w.listing)
		}, served: true, answers: 15},
	} {
		comes, later = c.comes, c.later
		if comes == nil {
			comes = func() {}
		}
		if later == nil {
			later = func() {}
		}
		served, err := w.AwaitVersion(t.Context(), "m", c.number)
		if served != c.served || (err == nil) != (c.wants == "") || !strings.Contains(fmt.Sprint(err), c.wants) {
			t.Errorf("%s: served %v, %v; want %v, %q", c.what, served, err, c.served, c.wants)
		}
		if c.answers != 0 {
			w.answers(w.version("m", c.number), c.answers)
		}
	}
}
