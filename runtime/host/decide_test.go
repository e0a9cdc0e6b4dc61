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
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/weftserve/weft/runtime/catalog"
	"github.com/weftserve/weft/runtime/decisions"
	"github.com/weftserve/weft/runtime/host"
	"github.com/weftserve/weft/runtime/modelrepo"
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
			w.choose("m", 2, 3)
			w.edit("m", func(m *modelrepo.Manifest) { m.Traffic = stated(2) })
			w.reconcile()
			w.divided(2)
		},
		func(w *world) { w.divided() }, // what a manifest says is kept, too: here it says nothing any more
	)
}

// TestALoadThatNobodyWaitsForIsKept once it succeeded, and so is one of a version that is there already.
func TestALoadThatNobodyWaitsForIsKept(t *testing.T) {
	lives(t, true, nil,
		func(w *world) {
			if err := w.LoadVersion(w.t.Context(), "m", 2); err != nil {
				w.t.Fatal(err)
			}
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
		func(w *world) { w.states("m/2 ready", "m/3 ready") },
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
	// The manifest's wish takes effect anyway.
	w.edit("m", func(m *modelrepo.Manifest) { m.Traffic = nil })
	w.reconcile()
	w.divided()
}

// TestDecisionsAreCarriedOut: traffic and labels are published at once, or refused as residency refuses them; what can
// be no decision is refused before it is asked.
func TestDecisionsAreCarriedOut(t *testing.T) {
	w := newWorld(t, 1)
	w.add("m", 1, times(1), nil)
	w.add("m", 2, times(2), nil)
	w.reconcile()
	first, err := w.SetTraffic("m", split(1, 2), w.Snapshot().Model("m").Traffic.Revision)
	if err != nil || first != w.Snapshot().Model("m").Traffic || first.Source != "SetTraffic" || first.At.IsZero() {
		t.Fatalf("%+v, %v", first, err)
	}
	second, err := w.SetTraffic("m", &catalog.Traffic{
		Split: split(1).Split, Source: "rollout", By: "me",
		Shadow: []catalog.Shadow{{Version: 2, Sample: 1}},
	}, first.Revision)
	if err != nil || second.Source != "rollout" || second.By != "me" || len(second.Shadow) != 1 {
		t.Errorf("%+v, %v", second, err)
	}
	if err := w.SetLabel("m", "stable", 2, "me"); err != nil || w.Snapshot().Model("m").Labels["stable"] != 2 {
		t.Errorf("%v, labels %v", err, w.Snapshot().Model("m").Labels)
	}
	twice := split(1, 2)
	twice.Split[1].Name = "a"
	for what, wrong := range map[string]bool{
		"the traffic of an unknown model": !errors.Is(errOf(w.SetTraffic("n", split(1), 0)), catalog.ErrUnknown),
		"a label of an unknown model":     !errors.Is(w.SetLabel("n", "stable", 1, "me"), catalog.ErrUnknown),
		"a version that is not there":     !errors.Is(w.SetLabel("m", "stable", 9, "me"), catalog.ErrNotReady),
		"no name of a label":              w.SetLabel("m", "../x", 1, "me") == nil,
		"two slots of one name":           !is[*catalog.TrafficError](errOf(w.SetTraffic("m", twice, 0))),
		"a change of what changed":        !is[*catalog.RevisionError](errOf(w.SetTraffic("m", split(2), first.Revision))),
	} {
		if wrong {
			t.Errorf("%s is taken, or refused for another reason", what)
		}
	}
	if now := w.Snapshot().Model("m").Traffic; now != second {
		t.Errorf("refused changes changed it to %+v", now)
	}
	if last, err := w.SetTraffic("m", nil, second.Revision); err != nil || len(last.Split) != 0 {
		t.Errorf("%+v, %v", last, err)
	}
	if _, err := w.Decide("n", catalog.Decision{Rollout: []byte("1")}); err != nil {
		t.Errorf("a decision about the rollout of a model that is not there: %v", err)
	}
}

// is reports whether an error is one of a type.
func is[E error](err error) bool {
	_, is := errors.AsType[E](err)
	return is
}

// TestLostAndBackInATrial: a device is lost and back while a trial on it ends well.
func TestLostAndBackInATrial(t *testing.T) {
	for d := range 60 {
		synctest.Test(t, func(t *testing.T) {
			w, m := newFleet(t, time.Second, "a")
			w.add("m", 1, m.open, tiny)
			w.Follow(w.listing)
			time.Sleep(time.Duration(d)*100*time.Millisecond + 50*time.Millisecond)
			w.LoseDevice("a", errors.New("the driver says so"))
			synctest.Wait()
			w.RestoreDevice("a")
			time.Sleep(time.Hour)
			v := w.version("m", 1)
			if v.State != catalog.Ready {
				t.Errorf("lost after %d: %v %s", d, v.State, v.Cause)
				return
			}
			call := ask(v, 1, 21)
			call.Limit = time.Now().Add(time.Minute)
			if err := w.Predict(t.Context(), call); err != nil {
				t.Errorf("lost after %d: %v", d, err)
			}
		})
	}
}
