package host_test

import (
	"errors"
	"slices"
	"testing"

	"github.com/weftserve/weft/internal/weftest"
	"github.com/weftserve/weft/runtime/host"
	"github.com/weftserve/weft/runtime/modelrepo"
)

// remove takes a version's directory away from model m.
func (w *world) remove(number int64) {
	w.change("m", func(m *modelrepo.Model) {
		is := func(v modelrepo.Version) bool { return v.Number == number }
		m.Versions, m.Selected = slices.DeleteFunc(m.Versions, is), slices.DeleteFunc(m.Selected, is)
	})
}

// stays returns the log's reasons why versions stay that are not selected.
func (w *world) stays() (all []string) {
	for _, r := range w.logs.Event("version_kept") {
		all = append(all, weftest.Attr(r, "cause").String())
	}
	return all
}

// TestARemovedVersionGoes although another one that is wanted cannot be loaded.
func TestARemovedVersionGoes(t *testing.T) {
	w := newWorld(t, 1)
	w.add("m", 1, times(1), nil)
	w.add("m", 2, times(2), nil)
	w.reconcile()
	w.add("m", 4, errors.New("cut short"), nil)
	w.reconcile()
	w.remove(1)
	w.reconcile()
	w.states("m/2 ready", "m/4 failed")

	// The last that answers stays, and the log says why, once.
	w.remove(2)
	w.reconcile()
	w.put("m", 4, errors.New("cut short again"), "second")
	w.reconcile()
	w.states("m/2 ready", "m/4 failed")
	if said := w.stays(); len(said) != 1 || said[0] != "version 4, wanted in its stead, cannot be loaded" {
		t.Errorf("the log says %q of why it stays", said)
	}
}

// TestARemovedVersionMakesRoom for one that memory did not suffice for.
func TestARemovedVersionMakesRoom(t *testing.T) {
	w := newWorldOf(t, 1, func(c *host.Config) { c.MemoryBudget = 13 << 20 })
	for n := range int64(3) {
		w.add("m", n+1, times(float32(n+1)), nil)
		w.sized("m", n+1, 4<<20)
		w.reconcile()
	}
	w.states("m/1 ready", "m/2 ready", "m/3 failed")
	w.remove(1)
	if err := w.Reconcile(t.Context(), w.listing); err != nil {
		t.Fatal(err)
	}
	w.states("m/2 ready", "m/3 ready")
}

// TestANewerVersionMustAnswer before one that still lies there goes for others that cannot be loaded.
func TestANewerVersionMustAnswer(t *testing.T) {
	w := newWorld(t, 1)
	for n := range int64(2) {
		w.add("m", n+1, times(float32(n+1)), nil)
	}
	w.reconcile()
	w.add("m", 3, errors.New("cut short"), nil)
	w.choose("m", 1, 3)
	w.reconcile()
	w.states("m/1 ready", "m/2 ready", "m/3 failed") // version 1 is old
	w.choose("m", 2, 3)
	w.reconcile()
	w.states("m/2 ready", "m/3 failed")

	w.remove(2)
	w.add("m", 4, opening(times(4), func() { w.states("m/2 ready", "m/3 failed", "m/4 loading") }), nil)
	w.reconcile()
	w.states("m/3 failed", "m/4 ready")
}

// TestAVersionWhoseFileIsGone stays while the policy would select it, and is shown as failed after that.
func TestAVersionWhoseFileIsGone(t *testing.T) {
	w := newWorld(t, 1)
	old := times(1)
	w.add("m", 1, old, func(m *modelrepo.Manifest) { m.Versions.Policy = modelrepo.Policy{All: true} })
	w.reconcile()
	w.change("m", func(m *modelrepo.Model) {
		m.Versions[0].Err = errors.New("no model.onnx")
		m.Selected = nil
	})
	w.add("m", 2, times(2), nil)
	w.reconcile()
	w.states("m/1 ready", "m/2 ready")
	w.edit("m", func(m *modelrepo.Manifest) { m.Versions.Policy = modelrepo.Policy{Latest: 1} })
	w.reconcile()
	w.states("m/1 failed", "m/2 ready")
	if cause := w.version("m", 1).Cause; cause != "no model.onnx" || old.Closed() != 1 {
		t.Errorf("cause %q, closed %d times", cause, old.Closed())
	}
}
