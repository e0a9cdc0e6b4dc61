package host_test

import (
	"errors"
	"testing"

	"github.com/weftserve/weft/runtime/modelrepo"
)

// TestWhatIsMissingIsToldOnce: the log names a missing version that the manifest asks for, again when that changes, and
// the others are served.
func TestWhatIsMissingIsToldOnce(t *testing.T) {
	w := newWorld(t, 1)
	w.add("m", 1, times(1), nil)
	told := func() int { return len(w.logs.Lines("WARN event=manifest_version_missing")) }
	for _, step := range []struct {
		missing error
		told    int // so far
	}{
		{nil, 0},
		{errors.New("version 2 does not exist"), 1},
		{errors.New("version 2 does not exist"), 1},
		{errors.New("version 3 does not exist"), 2},
		{nil, 2},
		{errors.New("version 3 does not exist"), 3},
	} {
		w.change("m", func(m *modelrepo.Model) { m.Missing = step.missing })
		w.reconcile()
		if got := told(); got != step.told {
			t.Errorf("missing %v: told %d times so far, want %d", step.missing, got, step.told)
		}
		w.answers(w.version("m", 1), 3)
	}
}

// TestSlotsWithoutWeightAnswer: traffic of which only such a slot is ready stays in force until the versions of its
// successor are ready.
func TestSlotsWithoutWeightAnswer(t *testing.T) {
	w := newWorld(t, 1)
	w.add("m", 1, errors.New("broken"), func(m *modelrepo.Manifest) {
		m.Traffic = &modelrepo.Traffic{Split: []modelrepo.SplitEntry{
			{Slot: "a", Version: 1, Weight: 1},
			{Slot: "b", Version: 2},
		}}
	})
	w.add("m", 2, times(2), nil)
	w.reconcile()
	w.change("m", func(m *modelrepo.Model) {
		m.Manifest.Traffic = &modelrepo.Traffic{Split: []modelrepo.SplitEntry{{Slot: "c", Version: 9, Weight: 1}}}
	})
	w.reconcile()
	if m := w.Snapshot().Model("m"); m.Traffic.SlotOf(2) != "b" || !m.Answers() {
		t.Errorf("the traffic is %+v; want that of which version 2 is ready", m.Traffic)
	}
}
