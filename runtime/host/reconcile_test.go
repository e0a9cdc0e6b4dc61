package host_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/weftserve/weft/internal/weftest"
	"github.com/weftserve/weft/runtime/catalog"
	"github.com/weftserve/weft/runtime/engine"
	"github.com/weftserve/weft/runtime/modelrepo"
)

// change makes the listing another one, in which one model differs.
func (w *world) change(name string, change func(*modelrepo.Model)) {
	w.listing.Models = slices.Clone(w.listing.Models)
	for i := range w.listing.Models {
		if m := &w.listing.Models[i]; m.Name == name {
			m.Versions, m.Selected = slices.Clone(m.Versions), slices.Clone(m.Selected)
			change(m)
			return
		}
	}
	w.t.Fatalf("no model %q in the listing", name)
}

// choose makes the policy select some of a model's versions.
func (w *world) choose(name string, numbers ...int64) {
	w.change(name, func(m *modelrepo.Model) {
		m.Selected = slices.DeleteFunc(slices.Clone(m.Versions),
			func(v modelrepo.Version) bool { return !slices.Contains(numbers, v.Number) })
	})
}

// put replaces the files of a version.
func (w *world) put(name string, number int64, engine any, fingerprint string) {
	w.change(name, func(m *modelrepo.Model) {
		for _, list := range [][]modelrepo.Version{m.Versions, m.Selected} {
			for i := range list {
				if v := &list[i]; v.Number == number {
					v.Fingerprint = fingerprint
					w.engine(v.Path, engine)
				}
			}
		}
	})
}

// reconcile follows the listing, and waits also until replaced versions are closed.
func (w *world) reconcile() {
	w.t.Helper()
	if err := w.Reconcile(w.t.Context(), w.listing); err != nil {
		w.t.Fatal(err)
	}
	weftest.Until(w.t, "what was replaced is closed", func() bool { // what failed before may become ready meanwhile
		return w.Counts().Loads-w.Counts().Unloads <= uint64(w.serving()) && len(w.flows()) <= w.serving()
	})
}

// serving returns how many versions are ready.
func (w *world) serving() (n int) {
	for _, s := range states(w.Snapshot()) {
		if strings.HasSuffix(s, " ready") {
			n++
		}
	}
	return n
}

// times returns a model that multiplies by k.
func times(k float32) *fake {
	return perRow(1, func(row []float32) error {
		row[0] *= k
		return nil
	})
}

// opening returns an engine that calls before when it is opened.
func opening(f *fake, before func()) func(context.Context) (engine.Opened, error) {
	return func(context.Context) (engine.Opened, error) {
		before()
		return engine.Opened{Session: f, Device: "dev", Provider: "fake"}, nil
	}
}

// answer asks a version for 3 times its factor.
func (w *world) answer(v *catalog.Version) (float32, error) {
	c := ask(v, 1, 3)
	if err := w.Predict(w.t.Context(), c); err != nil {
		return 0, err
	}
	return values(c.Results[0])[0], nil
}

// answers checks the version's answer to 3.
func (w *world) answers(v *catalog.Version, want float32) {
	w.t.Helper()
	if got, err := w.answer(v); err != nil || got != want {
		w.t.Errorf("%s/%d answers %v, %v; want %v", v.Model, v.Number, got, err, want)
	}
}

func (w *world) states(want ...string) {
	w.t.Helper()
	if diff := cmp.Diff(want, states(w.Snapshot())); diff != "" {
		w.t.Errorf("snapshot (-want +got):\n%s", diff)
	}
}

func TestANewVersionIsReadyBeforeTheOldOneGoes(t *testing.T) {
	w := newWorld(t, 1)
	old := times(1)
	w.add("m", 1, old, nil)
	w.reconcile()
	w.add("m", 2, opening(times(2), func() {
		w.states("m/1 ready", "m/2 loading")
		w.answers(w.version("m", 1), 3)
	}), nil)
	w.choose("m", 2)
	w.published()
	w.reconcile()
	w.states("m/2 ready")
	w.answers(w.version("m", 2), 6)
	if old.Closed() != 1 {
		t.Errorf("the old version was closed %d times", old.Closed())
	}
	for _, s := range w.published() {
		if s.Model("m").Newest() == nil {
			t.Errorf("a snapshot without a ready version: %v", states(s))
		}
	}
	if n := len(w.sched.State().Versions); n != 1 {
		t.Errorf("%d versions are in the scheduler", n)
	}
}

// TestFilesReplacedUnderTheSameNumber: the new ones take over when they are proven; until then
// the old ones answer. A caller that holds an earlier snapshot is answered anyway.
func TestFilesReplacedUnderTheSameNumber(t *testing.T) {
	w := newWorld(t, 1)
	old := times(1)
	w.add("m", 1, old, nil)
	w.reconcile()
	before := w.version("m", 1)

	w.put("m", 1, opening(times(5), func() {
		w.states("m/1 ready")
		w.answers(w.version("m", 1), 3)
	}), "third")
	w.reconcile()
	w.answers(w.version("m", 1), 15)
	w.answers(before, 15)
	if old.Closed() != 1 {
		t.Errorf("the old files were closed %d times", old.Closed())
	}

	// A request that was checked against another signature is not run.
	w.put("m", 1, perRow(2, double), "fourth")
	w.reconcile()
	if _, err := w.answer(before); !errors.Is(err, catalog.ErrNotReady) {
		t.Errorf("a request made for the signature before: %v", err)
	}
}

// TestARemovedModelDrains: its accepted requests are answered, and then it is gone. A repository that is empty
// altogether is more likely one that is not mounted.
func TestARemovedModelDrains(t *testing.T) {
	w := newWorld(t, 1)
	f := times(2)
	v := withValve(f)
	w.add("a", 1, times(1), nil)
	w.add("m", 1, f, func(m *modelrepo.Manifest) { m.Versions.Labels = map[string]int64{"stable": 1} })
	w.reconcile()
	published := w.version("m", 1)

	full := w.listing
	w.listing = modelrepo.Listing{Faults: []error{fmt.Errorf("%w: /models holds no model", modelrepo.ErrNoRepository)}}
	w.reconcile()
	w.states("a/1 ready", "m/1 ready")
	if n := len(w.logs.Event("removals_ignored")); n != 1 {
		t.Errorf("it was logged %d times that no model is taken to be gone", n)
	}

	v.closed = true
	call := ask(published, 1, 3)
	answered, reconciled := make(chan error, 1), make(chan error, 1)
	go func() { answered <- w.Predict(context.Background(), call) }()
	<-v.entered
	w.listing = modelrepo.Listing{Models: full.Models[:1]}
	go func() { reconciled <- w.Reconcile(context.Background(), w.listing) }()
	weftest.Until(t, "m/1 unloading", func() bool { return w.version("m", 1).State == catalog.Unloading })
	if f.Closed() != 0 {
		t.Error("closed while a request runs")
	}
	v.open <- struct{}{}
	if err := <-answered; err != nil || values(call.Results[0])[0] != 6 {
		t.Errorf("the request in flight: %v, %v", call.Results, err)
	}
	if err := <-reconciled; err != nil {
		t.Error(err)
	}
	w.states("a/1 ready")
	if f.Closed() != 1 {
		t.Errorf("closed %d times", f.Closed())
	}
	v.closed = false
	w.listing = full
	w.engine(full.Models[1].Versions[0].Path, times(7))
	w.reconcile()
	w.answers(w.version("m", 1), 21)
}

// TestReconcileEndsWithItsContext: and the steps that it began go on.
func TestReconcileEndsWithItsContext(t *testing.T) {
	w := newWorld(t, 1)
	w.add("m", 1, times(1), nil)
	ctx, cancel := context.WithCancel(t.Context())
	goOn := make(chan struct{})
	w.add("m", 2, opening(times(2), func() { cancel(); <-goOn }), nil)
	if err := w.Reconcile(ctx, w.listing); !errors.Is(err, context.Canceled) {
		t.Errorf("Reconcile: %v", err)
	}
	close(goOn)
	if err := w.Settled(t.Context()); err != nil {
		t.Error(err)
	}
	w.states("m/1 ready", "m/2 ready")
}
