package host_test

import (
	"errors"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/weftserve/weft/runtime/catalog"
	"github.com/weftserve/weft/runtime/modelrepo"
)

func (w *world) labelled(want map[string]int64) {
	w.t.Helper()
	if diff := cmp.Diff(want, w.Snapshot().Model("m").Labels); diff != "" {
		w.t.Errorf("labels (-want +got):\n%s", diff)
	}
}

func TestLabelsChangeAtRunTime(t *testing.T) {
	w := newWorld(t, 1)
	w.add("m", 1, times(1), func(m *modelrepo.Manifest) { m.Versions.Labels = map[string]int64{"stable": 1, "old": 1} })
	w.add("m", 2, times(2), nil)
	w.add("m", 3, errors.New("cut short"), nil)
	w.reconcile()
	if err := w.SetLabel("m", "stable", 2, "me"); err != nil {
		t.Errorf("without a state directory: %v", err)
	}
	w.labelled(map[string]int64{"stable": 2, "old": 1})
	for name, err := range map[string]error{
		"a version that is not ready": w.SetLabel("m", "stable", 3, "me"),
		"an unknown version":          w.SetLabel("m", "stable", 9, "me"),
	} {
		if !errors.Is(err, catalog.ErrNotReady) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := w.SetLabel("m", "none", 0, "me"); !errors.Is(err, catalog.ErrUnknown) {
		t.Errorf("removing a label that is not there: %v", err)
	}
	if err := w.SetLabel("m", "../x", 1, "me"); err == nil {
		t.Error("a label with a slash is accepted")
	}
	w.edit("m", func(m *modelrepo.Manifest) { m.Batching.MaxQueue++ })
	w.reconcile() // news of something else
	w.labelled(map[string]int64{"stable": 2, "old": 1})
	w.edit("m", func(m *modelrepo.Manifest) { m.Versions.Labels = map[string]int64{"stable": 1, "new": 2} })
	w.reconcile() // news of old and new
	w.labelled(map[string]int64{"stable": 2, "new": 2})
	w.edit("m", func(m *modelrepo.Manifest) { m.Versions.Labels = map[string]int64{"stable": 3, "new": 2} })
	w.reconcile() // a version that is not ready: the label stays until it is
	w.labelled(map[string]int64{"stable": 2, "new": 2})
	w.put("m", 3, times(3), "mended")
	w.reconcile()
	w.labelled(map[string]int64{"stable": 3, "new": 2})
}

// TestLabelsArePersisted: in the state directory, until the manifest says something else of them, also while no server
// runs.
func TestLabelsArePersisted(t *testing.T) {
	state := filepath.Join(t.TempDir(), "state")
	said := map[string]int64{"stable": 1, "old": 1}
	run := func(name string, do func(w *world)) {
		t.Run(name, func(t *testing.T) {
			w := newWorldOf(t, 1, keeping(t, state))
			w.add("m", 1, times(1), func(m *modelrepo.Manifest) { m.Versions.Labels = said })
			w.add("m", 2, times(2), nil)
			w.reconcile()
			do(w)
		})
	}
	set := func(w *world, label string, version int64) {
		w.t.Helper()
		if err := w.SetLabel("m", label, version, "me"); err != nil {
			w.t.Fatal(err)
		}
	}
	run("set", func(w *world) {
		set(w, "stable", 2)
		set(w, "old", 0)
		set(w, "new", 2)
	})
	run("start again", func(w *world) {
		w.labelled(map[string]int64{"stable": 2, "new": 2})
		w.edit("m", func(m *modelrepo.Manifest) { m.Versions.Labels = map[string]int64{"stable": 1, "old": 2} })
		w.reconcile() // news of old alone
		w.labelled(map[string]int64{"stable": 2, "old": 2, "new": 2})
	})
	said = map[string]int64{"old": 2, "new": 1}
	run("said while no server ran", func(w *world) { // news of stable and new
		w.labelled(map[string]int64{"old": 2, "new": 1})
	})
	said = map[string]int64{"stable": 1, "old": 1}
	run("said as at first", func(w *world) { // the label set then does not come back
		w.labelled(map[string]int64{"stable": 1, "old": 1})
	})
}
