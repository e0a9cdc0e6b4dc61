package host_test

import (
	"errors"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"

	"github.com/weftserve/weft/internal/weftest"
	"github.com/weftserve/weft/runtime/catalog"
	"github.com/weftserve/weft/runtime/modelrepo"
)

// split is a traffic of slots a, b, ... that lead to the versions in equal parts.
func split(versions ...int64) *catalog.Traffic {
	t := &catalog.Traffic{}
	for i, n := range versions {
		t.Split = append(t.Split, catalog.Slot{Name: string(rune('a' + i)), Version: n, Weight: 1})
	}
	return t
}

// stated is the same as a manifest says it.
func stated(versions ...int64) *modelrepo.Traffic {
	t := &modelrepo.Traffic{}
	for _, s := range split(versions...).Split {
		t.Split = append(t.Split, modelrepo.SplitEntry{Slot: s.Name, Version: s.Version, Weight: s.Weight})
	}
	return t
}

// divided returns the versions of a published split.
func divided(t *catalog.Traffic) []int64 {
	if t == nil {
		return nil
	}
	var all []int64
	for _, s := range t.Split {
		all = append(all, s.Version)
	}
	return all
}

func (w *world) divided(want ...int64) {
	w.t.Helper()
	if diff := cmp.Diff(want, divided(w.Snapshot().Model("m").Traffic)); diff != "" {
		w.t.Errorf("split among versions (-want +got):\n%s", diff)
	}
}

func TestTrafficIsSetByCompareAndSet(t *testing.T) {
	w := newWorld(t, 1)
	for n := range int64(3) {
		w.add("m", n+1, times(float32(n+1)), nil)
	}
	w.add("m", 4, errors.New("cut short"), nil)
	w.load("m")
	none := w.Snapshot().Model("m").Traffic
	if none.Revision == 0 || none.Source != "default" || len(none.Split) != 0 {
		t.Errorf("before anybody divided it: %+v", none)
	}
	first, err := w.SetTraffic("m", split(1, 2), none.Revision)
	if err != nil || first != w.Snapshot().Model("m").Traffic || first.Source != "SetTraffic" {
		t.Fatalf("%+v, %v", first, err)
	}
	if _, err := w.SetTraffic("m", split(2), none.Revision); err == nil {
		t.Error("a change of traffic that was divided meanwhile is made")
	}
	second, err := w.SetTraffic("m",
		&catalog.Traffic{
			Split: split(1, 3).Split, Shadow: []catalog.Shadow{{Version: 2, Sample: 1}},
			Source: "rollout",
		}, first.Revision)
	if err != nil || second.Revision <= first.Revision || second.Source != "rollout" || len(second.Shadow) != 1 {
		t.Fatalf("%+v, %v", second, err)
	}
	if _, err := w.SetTraffic("m", split(2), first.Revision); err == nil || func() bool {
		e, is := errors.AsType[*catalog.RevisionError](err)
		return !is || e.Current != second.Revision
	}() {
		t.Errorf("a change of what is not there any more: %v", err)
	}
	if _, err := w.SetTraffic("m", split(1, 4), 0); !errors.Is(err, catalog.ErrNotReady) {
		t.Errorf("a version that is not ready: %v", err)
	}
	if _, err := w.SetTraffic("m", split(1, 9), 0); !errors.Is(err, catalog.ErrNotReady) {
		t.Errorf("a version that does not exist: %v", err)
	}
	if _, err := w.SetTraffic("n", split(1), 0); !errors.Is(err, catalog.ErrUnknown) {
		t.Errorf("a model that does not exist: %v", err)
	}
	faulty := split(1, 2)
	faulty.Split[1].Name = "a"
	if _, is := errors.AsType[*catalog.TrafficError](errOf(w.SetTraffic("m", faulty, 0))); !is {
		t.Error("two slots of one name are accepted")
	}
	if now := w.Snapshot().Model("m").Traffic; now != second {
		t.Errorf("refused changes changed it to %+v", now)
	}
	if last, err := w.SetTraffic("m", nil, second.Revision); err != nil || len(last.Split) != 0 ||
		last.Revision <= second.Revision {
		t.Errorf("%+v, %v", last, err)
	}
}

func errOf[T any](_ T, err error) error { return err }

// TestCompareAndSetHasOneWinner: of changes based on the same revision one is made.
func TestCompareAndSetHasOneWinner(t *testing.T) {
	w := newWorld(t, 1)
	w.add("m", 1, times(1), nil)
	w.load("m")
	base, err := w.SetTraffic("m", split(1), 0)
	if err != nil {
		t.Fatal(err)
	}
	var callers sync.WaitGroup
	won := make(chan uint64, 8)
	for range cap(won) {
		callers.Go(func() {
			if now, err := w.SetTraffic("m", split(1, 1), base.Revision); err == nil {
				won <- now.Revision
			}
		})
	}
	callers.Wait()
	if len(won) != 1 {
		t.Errorf("%d of %d changes were made", len(won), cap(won))
	}
}

// TestTrafficOfTheManifest: it is published when the versions that it names are ready, and a change at run time holds
// until the manifest says something else.
func TestTrafficOfTheManifest(t *testing.T) {
	w := newWorld(t, 1)
	w.add("m", 1, times(1), func(m *modelrepo.Manifest) { m.Traffic = stated(1) })
	w.reconcile()
	w.divided(1)
	w.add("m", 2, opening(times(2), func() { w.divided(1) }), nil)
	w.edit("m", func(m *modelrepo.Manifest) { m.Traffic = stated(1, 2) })
	w.reconcile()
	w.divided(1, 2)
	if source := w.Snapshot().Model("m").Traffic.Source; source != "model.yaml" {
		t.Errorf("source %q", source)
	}
	if _, err := w.SetTraffic("m", split(2), 0); err != nil {
		t.Fatal(err)
	}
	w.edit("m", func(m *modelrepo.Manifest) { m.Batching.MaxQueue++ })
	w.reconcile()
	w.divided(2)
	w.edit("m", func(m *modelrepo.Manifest) { m.Traffic = stated(2, 1) })
	w.reconcile()
	w.divided(2, 1)

	// A version that fails keeps the division before in force, as long as any of that answers.
	w.add("m", 3, errors.New("cut short"), nil)
	w.edit("m", func(m *modelrepo.Manifest) { m.Traffic = stated(1, 3) })
	w.reconcile()
	w.divided(2, 1)
	w.breaks(2)
	w.divided(2, 1)
	w.put("m", 3, times(3), "mended")
	w.reconcile()
	w.divided(1, 3)
	w.edit("m", func(m *modelrepo.Manifest) { m.Traffic = nil })
	w.reconcile()
	if now := w.Snapshot().Model("m").Traffic; len(now.Split) != 0 || now.Source != "default" {
		t.Errorf("traffic %+v, though the manifest has none any more", now)
	}
	// With nothing left that answers, the wanted traffic is published, for the errors to speak of.
	w.edit("m", func(m *modelrepo.Manifest) { m.Traffic = stated(1) })
	w.reconcile()
	w.add("m", 4, errors.New("cut short"), nil)
	w.edit("m", func(m *modelrepo.Manifest) { m.Traffic = stated(4) })
	w.reconcile()
	w.divided(1)
	w.breaks(1)
	w.divided(4)
}

// breaks makes a version of m give way to files that cannot be loaded, so that it is not ready any more although it is
// wanted and named.
func (w *world) breaks(number int64) {
	w.t.Helper()
	w.edit("m", func(m *modelrepo.Manifest) { m.Versions.Transition = modelrepo.ResourceFirst })
	w.put("m", number, errors.New("cut short"), "broken")
	w.reconcile()
	w.edit("m", func(m *modelrepo.Manifest) { m.Versions.Transition = modelrepo.AvailabilityFirst })
	w.reconcile()
	if v := w.version("m", number); v.State != catalog.Failed {
		w.t.Fatalf("m/%d is %v", number, v.State)
	}
}

// TestTrafficKeepsItsRevision: that a version stops being ready, and comes back, is no change of the traffic that
// somebody made.
func TestTrafficKeepsItsRevision(t *testing.T) {
	w := newWorld(t, 1)
	for n := range int64(3) {
		w.add("m", n+1, times(float32(n+1)), nil)
	}
	w.load("m")
	shadow := []catalog.Shadow{{Version: 3, Sample: 1}}
	set, err := w.SetTraffic("m", &catalog.Traffic{Split: split(1, 2).Split, Shadow: shadow}, 0)
	if err != nil {
		t.Fatal(err)
	}
	w.breaks(2)
	w.breaks(3)
	if now := w.Snapshot().Model("m").Traffic; now != set {
		t.Errorf("with versions 2 and 3 gone it is %+v", now)
	}
	if _, err := w.SetTraffic("m", split(2), set.Revision); !errors.Is(err, catalog.ErrNotReady) {
		t.Errorf("traffic to a version that is gone: %v", err)
	}
	if _, err := w.SetTraffic("m", &catalog.Traffic{Split: split(1).Split, Shadow: shadow}, set.Revision); err != nil {
		t.Errorf("a shadow that is gone keeps the split from being changed: %v", err)
	}
}

// TestAShadowNeverAnswers: of a division none of whose versions is ready, nobody else takes the requests.
func TestAShadowNeverAnswers(t *testing.T) {
	w := newWorld(t, 1)
	w.add("m", 1, errors.New("cut short"), func(m *modelrepo.Manifest) {
		m.Traffic = stated(1)
		m.Traffic.Shadow = []modelrepo.ShadowEntry{
			{Version: 2, Sample: 1, Per: modelrepo.PerRequest},
			{Version: 3, Sample: 1},
		}
	})
	w.add("m", 2, times(2), nil)
	w.add("m", 3, errors.New("cut short"), nil)
	w.reconcile()
	w.divided(1)
	shadows := []catalog.Shadow{{Version: 2, Sample: 1, PerRequest: true}, {Version: 3, Sample: 1}}
	if diff := cmp.Diff(shadows, w.Snapshot().Model("m").Traffic.Shadow); diff != "" {
		t.Errorf("shadows (-want +got):\n%s", diff)
	}
}

// TestWhatIsNamedStays: the policy does not take away a version that traffic or a label names, until nothing does.
func TestWhatIsNamedStays(t *testing.T) {
	for name, change := range map[string]struct{ name, forget func(w *world) error }{
		"traffic": {
			func(w *world) error { return errOf(w.SetTraffic("m", split(1), 0)) },
			func(w *world) error { return errOf(w.SetTraffic("m", split(2), 0)) },
		},
		"shadow": {
			func(w *world) error {
				return errOf(w.SetTraffic("m", &catalog.Traffic{Shadow: []catalog.Shadow{{Version: 1, Sample: 1}}}, 0))
			},
			func(w *world) error { return errOf(w.SetTraffic("m", nil, 0)) },
		},
		"label": {
			func(w *world) error { return w.SetLabel("m", "stable", 1, "me") },
			func(w *world) error { return w.SetLabel("m", "stable", 0, "me") },
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, 1)
				w.add("m", 1, times(1), nil)
				w.reconcile()
				if err := change.name(w); err != nil {
					t.Fatal(err)
				}
				w.add("m", 2, times(2), nil)
				w.choose("m", 2)
				w.reconcile()
				w.states("m/1 ready", "m/2 ready")
				if _, is := errors.AsType[*catalog.InUseError](w.UnloadVersion(t.Context(), "m", 1)); !is {
					t.Error("it can be unloaded by hand")
				}
				if err := change.forget(w); err != nil {
					t.Fatal(err)
				}
				synctest.Wait()
				w.states("m/2 ready")
				if len(w.logs.Event("version_kept")) == 0 {
					t.Error("the log does not say that it stays")
				}
			})
		})
	}
}

// TestAStaleChangeIsToldSo, whatever else is wrong with it by now.
func TestAStaleChangeIsToldSo(t *testing.T) {
	w := newWorld(t, 1)
	w.add("m", 1, times(1), nil)
	w.load("m")
	old := w.Snapshot().Model("m").Traffic.Revision
	if _, err := w.SetTraffic("m", split(1), 0); err != nil {
		t.Fatal(err)
	}
	if _, is := errors.AsType[*catalog.RevisionError](errOf(w.SetTraffic("m", split(9), old))); !is {
		t.Error("it hears of a version that is not there, not that it comes too late")
	}
}

// TestTrafficThatWaits for a version is reported: in the snapshot, and in the log when it begins and how it ends.
func TestTrafficThatWaits(t *testing.T) {
	w := newWorld(t, 1)
	w.add("m", 1, times(1), nil)
	w.add("m", 9, errors.New("cut short"), nil)
	w.reconcile()
	w.edit("m", func(m *modelrepo.Manifest) { m.Traffic = stated(1, 9) })
	w.reconcile()
	w.reconcile()
	w.divided()
	if diff := cmp.Diff([]int64{9}, w.Snapshot().Model("m").TrafficWaitsFor); diff != "" {
		t.Errorf("waits for (-want +got):\n%s", diff)
	}
	if _, err := w.SetTraffic("m", split(1), 0); err != nil {
		t.Fatal(err)
	}
	w.put("m", 9, times(9), "mended")
	w.reconcile()
	w.divided(1)
	w.edit("m", func(m *modelrepo.Manifest) { m.Traffic = stated(9, 1) })
	w.reconcile()
	w.divided(9, 1)
	if waits := w.Snapshot().Model("m").TrafficWaitsFor; waits != nil {
		t.Errorf("waits for %v", waits)
	}
	var told []string
	for _, r := range w.logs.Records() {
		if event := weftest.Attr(r, "event").String(); strings.HasPrefix(event, "manifest_traffic_") {
			told = append(told, event)
		}
	}
	want := []string{"manifest_traffic_waits", "manifest_traffic_dropped", "manifest_traffic_in_force"}
	if diff := cmp.Diff(want, told); diff != "" {
		t.Errorf("the log (-want +got):\n%s", diff)
	}
}
