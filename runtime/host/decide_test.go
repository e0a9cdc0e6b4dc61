package host_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/weftserve/weft/runtime/catalog"
	"github.com/weftserve/weft/runtime/decisions"
	"github.com/weftserve/weft/runtime/host"
	"github.com/weftserve/weft/runtime/modelrepo"
	"github.com/weftserve/weft/server/routing"
)

// keeping makes a host keep decisions in a directory, until the end of the test.
func keeping(t *testing.T, state string) func(*host.Config) {
	t.Helper()
	s, err := decisions.Open(state, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return func(c *host.Config) { c.Keeper = s }
}

// lives runs one host after the other on a state directory. A model has versions 1 to 3; the highest is selected alone
// if latest says so.
func lives(t *testing.T, latest bool, change func(*modelrepo.Manifest), each ...func(w *world)) {
	t.Helper()
	state := filepath.Join(t.TempDir(), "state")
	for i, do := range each {
		t.Run(fmt.Sprint("life ", i+1), func(t *testing.T) {
			w := newWorldOf(t, 1, keeping(t, state))
			for n := range int64(3) {
				w.add("m", n+1, times(float32(n+1)), change)
			}
			if latest && i > 0 {
				w.choose("m", 3)
			}
			w.reconcile()
			do(w)
		})
	}
}

// LoadVersion and UnloadVersion are calls by a caller named "me".
func (w *world) LoadVersion(ctx context.Context, name string, number int64) error {
	return w.Host.LoadVersion(ctx, name, number, "me")
}

func (w *world) UnloadVersion(ctx context.Context, name string, number int64) error {
	return w.Host.UnloadVersion(ctx, name, number, "me")
}

// newest expects the version that answers where nothing divides the traffic; 0 for none.
func (w *world) newest(want int64) {
	w.t.Helper()
	got := int64(0)
	if v := w.Snapshot().Model("m").Newest(); v != nil {
		got = v.Number
	}
	if got != want {
		w.t.Errorf("version %d answers for being the newest, want %d", got, want)
	}
}

// rollBack rolls version 3 back, as a rollout does.
func (w *world) rollBack(expected uint64) *catalog.Traffic {
	w.t.Helper()
	public, err := w.Decide("m", catalog.Decision{
		Traffic: split(2), Expected: expected, RollBack: &catalog.RolledBack{Version: 3, By: "gate", Why: "worse"},
		Rollout: []byte(`{"A":1}`),
	})
	if err != nil {
		w.t.Fatal(err)
	}
	return public
}

// TestTrafficOutlivesTheHost with its revision, also where the policy does not select the version that it leads to.
func TestTrafficOutlivesTheHost(t *testing.T) {
	var set *catalog.Traffic
	lives(t, true, nil,
		func(w *world) {
			var err error
			if set, err = w.SetTraffic("m",
				&catalog.Traffic{Split: split(1).Split, Shadow: []catalog.Shadow{{Version: 2, Sample: 1}}, By: "me"},
				0); err != nil {
				t.Fatal(err)
			}
		},
		func(w *world) {
			if diff := cmp.Diff(set, w.Snapshot().Model("m").Traffic); diff != "" {
				w.t.Errorf("the traffic (-before +after):\n%s", diff)
			}
			w.states("m/1 ready", "m/2 ready", "m/3 ready")
			if _, err := w.SetTraffic("m", split(3), set.Revision); err != nil {
				w.t.Error(err)
			}
			if _, err := w.SetTraffic("m", split(2), set.Revision); err == nil {
				w.t.Error("a revision counts twice")
			}
		},
		func(w *world) {
			w.divided(3)
			w.states("m/3 ready")
		},
	)
}

// TestARollbackOutlivesTheHost, until somebody gives the version traffic by name.
func TestARollbackOutlivesTheHost(t *testing.T) {
	lives(t, true, nil,
		func(w *world) {
			public := w.rollBack(0)
			w.newest(2)
			if _, err := w.SetTraffic("m", nil, public.Revision); err != nil {
				w.t.Fatal(err)
			}
		},
		func(w *world) { // the policy selects version 3 alone, and another one answers
			w.newest(2)
			w.states("m/2 ready", "m/3 ready")
			if err := w.SetLabel("m", "bad", 3, "me"); err != nil {
				w.t.Error(err)
			}
			w.newest(2)
			w.put("m", 3, times(3), "other files")
			w.reconcile()
			w.newest(2)
			if _, err := w.SetTraffic("m",
				&catalog.Traffic{Split: split(2).Split, Shadow: []catalog.Shadow{{Version: 3, Sample: 1}}},
				0); err != nil {
				w.t.Error(err)
			}
			w.newest(2)
		},
		func(w *world) {
			w.newest(2)
			if _, err := w.SetTraffic("m", split(2, 3), 0); err != nil {
				w.t.Error(err)
			}
			w.newest(3)
		},
		func(w *world) { w.newest(3) },
	)
}

// TestTheManifestUndoesARollback if it gives the version traffic, but not because it says the same as before.
func TestTheManifestUndoesARollback(t *testing.T) {
	says := stated(3)
	manifest := func(m *modelrepo.Manifest) { m.Traffic = says }
	lives(t, false, manifest,
		func(w *world) {
			w.divided(3)
			w.rollBack(0)
			w.divided(2)
		},
		func(w *world) {
			w.divided(2)
			w.newest(2)
			w.edit("m", func(m *modelrepo.Manifest) { m.Traffic = stated(1) })
			w.reconcile()
			w.divided(1)
			w.newest(2) // it was not named
			says = stated(1)
		},
		func(w *world) {
			w.divided(1)
			w.newest(2)
			if _, err := w.SetTraffic("m", split(2), 0); err != nil {
				w.t.Fatal(err)
			}
			says = stated(3, 1) // while no server runs
		},
		func(w *world) {
			w.divided(3, 1)
			w.newest(3)
			says = nil
		},
		func(w *world) { w.divided() },
	)
}

// TestWhatIsGoneIsStoodInFor: traffic that was kept leads to a version that is gone, or cannot be loaded, after the
// restart.
func TestWhatIsGoneIsStoodInFor(t *testing.T) {
	state := filepath.Join(t.TempDir(), "state")
	for i, engine := range []any{times(1), errors.New("cut short"), nil} {
		t.Run(fmt.Sprint("life ", i+1), func(t *testing.T) {
			w := newWorldOf(t, 1, keeping(t, state))
			if engine != nil {
				w.add("m", 1, engine, nil)
			}
			w.add("m", 2, times(2), nil)
			w.reconcile()
			if i == 0 {
				if _, err := w.SetTraffic("m", split(1, 2), 0); err != nil {
					t.Fatal(err)
				}
			}
			w.divided(1, 2)
			answered := map[float32]bool{}
			router := routing.NewRouter(routing.Config{})
			for n := range uint64(50) {
				route, err := router.Route(w.Snapshot(), routing.Request{Model: "m", Serial: n})
				if err != nil {
					t.Fatal(err)
				}
				got, err := w.answer(route.Version)
				if err != nil {
					t.Fatal(err)
				}
				answered[got] = true
			}
			if !answered[6] || answered[3] != (i == 0) || !w.Snapshot().Model("m").Answers() {
				t.Errorf("the answers are %v", answered)
			}
		})
	}
}

// TestByHandOutlivesTheHost until the policy changes.
func TestByHandOutlivesTheHost(t *testing.T) {
	lives(t, true, nil,
		func(w *world) {
			for n := range int64(2) {
				if err := w.LoadVersion(w.t.Context(), "m", n+1); err != nil {
					w.t.Fatal(err)
				}
			}
			for _, n := range []int64{1, 3} {
				if err := w.UnloadVersion(w.t.Context(), "m", n); err != nil {
					w.t.Fatal(err)
				}
			}
		},
		func(w *world) {
			w.states("m/2 ready")
			w.edit("m", func(m *modelrepo.Manifest) { m.Versions.Policy.Latest = 2 })
			w.choose("m", 3)
			w.reconcile()
			w.states("m/3 ready")
			w.edit("m", func(m *modelrepo.Manifest) { m.Versions.Policy.Latest = 1 })
			w.reconcile()
		},
		func(w *world) { w.states("m/3 ready") },
	)
}

// TestALoadThatNobodyWaitsForIsKept once it succeeded.
func TestALoadThatNobodyWaitsForIsKept(t *testing.T) {
	lives(t, true, nil,
		func(w *world) {
			if err := w.UnloadVersion(w.t.Context(), "m", 3); err != nil {
				w.t.Fatal(err)
			}
			goOn := make(chan struct{})
			w.put("m", 3, opening(times(3), func() { <-goOn }), "first")
			ctx, cancel := context.WithCancel(w.t.Context())
			told := make(chan error, 1)
			changed := w.Changed("m")
			go func() { told <- w.LoadVersion(ctx, "m", 3) }()
			<-changed // it is loading
			cancel()
			if err := <-told; !errors.Is(err, context.Canceled) {
				w.t.Errorf("error %v", err)
			}
			close(goOn)
			if err := w.Settled(w.t.Context()); err != nil {
				w.t.Error(err)
			}
		},
		func(w *world) { w.states("m/3 ready") },
	)
}

// full is a disk that is full from the first failure on.
type full struct{ *decisions.Store }

func (full) Keep(string, decisions.Model) error {
	return fmt.Errorf("write /secret/m.json: %w", syscall.ENOSPC)
}

// TestWhatCannotBeKeptIsNotDone: the caller hears of it, without a path, and nothing changes.
func TestWhatCannotBeKeptIsNotDone(t *testing.T) {
	w := newWorldOf(t, 1, func(c *host.Config) { c.Keeper = full{} })
	w.add("m", 1, times(1), func(m *modelrepo.Manifest) { m.Traffic = stated(1) })
	w.add("m", 2, times(2), nil)
	w.reconcile()
	before := w.Snapshot().Model("m").Traffic
	for what, err := range map[string]error{
		"traffic":    errOf(w.SetTraffic("m", split(2), 0)),
		"a label":    w.SetLabel("m", "stable", 1, "me"),
		"a rollback": errOf(w.Decide("m", catalog.Decision{RollBack: &catalog.RolledBack{Version: 2}})),
		"by hand":    w.UnloadVersion(t.Context(), "m", 2),
	} {
		if _, is := errors.AsType[*catalog.KeepError](err); !is || strings.Contains(err.Error(), "secret") ||
			!strings.Contains(err.Error(), "no space left") {
			t.Errorf("%s: %v", what, err)
		}
	}
	if m := w.Snapshot().Model("m"); m.Traffic != before || len(m.Labels) != 0 || len(m.RolledBack) != 0 {
		t.Errorf("the model is %+v", m)
	}
	// The manifest's wish takes place all the same.
	w.edit("m", func(m *modelrepo.Manifest) { m.Traffic = nil })
	w.reconcile()
	w.divided()
}
