package host_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
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
	persisted, why, err := w.SetLabel("m", "stable", 2)
	if err != nil || persisted || why == "" {
		t.Errorf("persisted %v in a directory that does not exist (%q), %v", persisted, why, err)
	}
	w.labelled(map[string]int64{"stable": 2, "old": 1})
	for name, err := range map[string]error{
		"a version that is not ready": errOf2(w.SetLabel("m", "stable", 3)),
		"an unknown version":          errOf2(w.SetLabel("m", "stable", 9)),
	} {
		if !errors.Is(err, catalog.ErrNotReady) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, _, err := w.SetLabel("m", "none", 0); !errors.Is(err, catalog.ErrUnknown) {
		t.Errorf("removing a label that is not there: %v", err)
	}
	if _, _, err := w.SetLabel("m", "../x", 1); err == nil {
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

// TestLabelsArePersisted: in the manifest; and a listing from before a write does not bring an older label back.
func TestLabelsArePersisted(t *testing.T) {
	dir := t.TempDir()
	for _, version := range []string{"1", "2"} {
		if err := os.MkdirAll(filepath.Join(dir, "m", version), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	manifest := filepath.Join(dir, "m", modelrepo.ManifestName)
	text := "# kept\nsynth: {inputs: {x: {dtype: fp32, shape: [-1, 1]}}, outputs: {y: {dtype: fp32, shape: [-1, 1]}}}\nversions: {policy: all}\n"
	if err := os.WriteFile(manifest, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	repository, err := modelrepo.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	w := newWorld(t, 1)
	scan := func() {
		t.Helper()
		w.listing = repository.Scan()
		if err := w.listing.Err(); err != nil {
			t.Fatal(err)
		}
	}
	scan()
	w.engine("", opening(times(1), func() {}))
	w.reconcile()
	set := func(version int64) {
		t.Helper()
		if persisted, why, err := w.SetLabel("m", "stable", version); err != nil || !persisted {
			t.Fatalf("persisted %v: %s, %v", persisted, why, err)
		}
	}
	set(1)
	scan()
	set(2)
	w.reconcile() // with what was true before
	w.labelled(map[string]int64{"stable": 2})
	scan()
	w.reconcile()
	w.labelled(map[string]int64{"stable": 2})
	if written, err := os.ReadFile(manifest); err != nil || !strings.Contains(string(written), "# kept") || !strings.Contains(string(written), "stable: 2") {
		t.Errorf("the manifest is %q, %v", written, err)
	}

	// A person who writes an earlier label is heard, whatever was written before.
	byHand := func(labels string, want map[string]int64) {
		t.Helper()
		if err := os.WriteFile(manifest, []byte(strings.Replace(text, "all", "all, labels: {"+labels+"}", 1)), 0o644); err != nil {
			t.Fatal(err)
		}
		scan()
		w.reconcile()
		w.labelled(want)
	}
	byHand("stable: 1", map[string]int64{"stable": 1})
	set(2)
	set(1)
	set(2)
	scan()
	w.reconcile()
	w.labelled(map[string]int64{"stable": 2})
	byHand("stable: 1", map[string]int64{"stable": 1})
	set(1) // nothing new
	set(2)
	byHand("stable: 1", map[string]int64{"stable": 1})
	byHand("stable: 2", map[string]int64{"stable": 2})
	byHand("stable: 1", map[string]int64{"stable": 1})
	set(2) // which no listing shows before a person writes something else
	byHand("new: 1", map[string]int64{"new": 1})
	byHand("stable: 2", map[string]int64{"stable": 2})
}
