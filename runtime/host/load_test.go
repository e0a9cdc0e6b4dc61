package host_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/weftserve/weft/internal/weftest"
	"github.com/weftserve/weft/runtime/catalog"
	"github.com/weftserve/weft/runtime/engine"
	"github.com/weftserve/weft/runtime/modelrepo"
	"github.com/weftserve/weft/runtime/tensor"
	"github.com/weftserve/weft/sharedsched"
)

// states lists the versions of a snapshot with their states, such as "a/1 ready".
func states(s *catalog.Snapshot) []string {
	var all []string
	for _, m := range s.Models.All() {
		if len(m.Versions) == 0 {
			all = append(all, m.Name+" "+m.Cause)
		}
		for _, v := range m.Versions {
			all = append(all, m.Name+"/"+string(rune('0'+v.Number))+" "+v.State.String())
		}
	}
	return all
}

func TestFailuresHarmNobodyElse(t *testing.T) {
	w := newWorld(t, 1)
	w.add("a", 1, perRow(1, double), nil)
	w.add("a", 2, errors.New("/models/a/2/model.onnx: the file is cut short; copy it again"), nil)
	w.add("a", 3, func(context.Context) (engine.Opened, error) { panic("parser bug") }, nil)
	w.add("b", 1, perRow(1, double), nil)
	// The copy that is still under way is not among the selected versions.
	b := &w.listing.Models[1]
	b.Versions = append(b.Versions,
		modelrepo.Version{Number: 2, Dir: "/models/b/2", Err: errors.New("/models/b/2 has no model.onnx")})
	w.listing.Models = append(w.listing.Models,
		modelrepo.Model{Name: "c", Dir: "/models/c", Err: errors.New("/models/c/model.yaml:3: unknown key wait")})
	w.load("a")

	want := []string{
		"a/1 ready", "a/2 failed", "a/3 failed", "b/1 ready", "b/2 failed",
		"c c/model.yaml:3: unknown key wait",
	}
	if diff := cmp.Diff(want, states(w.Snapshot())); diff != "" {
		t.Errorf("snapshot (-want +got):\n%s", diff)
	}
	for _, test := range []struct {
		model   string
		version int64
		want    string
	}{
		{"a", 2, "the file is cut short; copy it again"},
		{"a", 3, "a/3/model.onnx: the engine panicked: parser bug"},
		{"b", 2, "b/2 has no model.onnx"},
	} {
		v := w.version(test.model, test.version)
		if !strings.Contains(v.Cause, test.want) || strings.Contains(v.Cause, "/models/") {
			t.Errorf("%s/%d: cause %q, want %q and not where the repository is", test.model, test.version, v.Cause,
				test.want)
		}
		if whole := fmt.Sprintf("/models/%s/%d", test.model, test.version); !strings.Contains(v.Fault.Error(), whole) {
			t.Errorf("%s/%d: fault %q, want it to name %s", test.model, test.version, v.Fault, whole)
		}
	}
	if err := w.Predict(t.Context(), ask(w.version("a", 2), 1, 1)); !errors.Is(err, catalog.ErrNotReady) {
		t.Errorf("a version that failed answers with %v", err)
	}
	for _, model := range []string{"a", "b"} {
		if err := w.Predict(t.Context(), ask(w.version(model, 1), 1, 1)); err != nil {
			t.Errorf("%s: %v", model, err)
		}
	}
	reported := 0
	for _, r := range w.logs.Records() {
		if r.Level == slog.LevelError {
			reported++
		}
	}
	if n := w.Counts().LoadFailures; n != 2 {
		t.Errorf("counted %d times that a load failed, want 2", n)
	}
	if reported != 4 {
		t.Errorf("%d errors were logged, want one for each of the 4 that failed", reported)
	}
}

func TestPublishedWhileLoading(t *testing.T) {
	w := newWorld(t, 1)
	var during []string
	var early error
	f := perRow(1, double)
	w.add("m", 1, func(context.Context) (engine.Opened, error) {
		during = states(w.Snapshot())
		early = w.Predict(t.Context(), ask(w.version("m", 1), 1, 1))
		return engine.Opened{Session: f, Device: "dev", Provider: "fake", Notes: []string{"no cuda here"}}, nil
	}, func(m *modelrepo.Manifest) { m.Versions.Labels = map[string]int64{"stable": 1} })
	v := w.load("m")
	if diff := cmp.Diff([]string{"m/1 loading"}, during); diff != "" {
		t.Errorf("while loading (-want +got):\n%s", diff)
	}
	if !errors.Is(early, catalog.ErrNotReady) {
		t.Errorf("a request while loading: %v", early)
	}
	if v.State != catalog.Ready || v.Device != "dev" || v.Provider != "fake" || v.Weight != 1 || v.LoadedAt.IsZero() {
		t.Errorf("published %+v", v)
	}
	if diff := cmp.Diff([]string{"no cuda here"}, v.Signature.Notes); diff != "" {
		t.Errorf("notes (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(map[string]int64{"stable": 1}, w.Snapshot().Model("m").Labels); diff != "" {
		t.Errorf("labels (-want +got):\n%s", diff)
	}
	all := w.published()
	for i, s := range all {
		if i > 0 && s.Revision <= all[i-1].Revision {
			t.Errorf("OnChange heard of revision %d after %d", s.Revision, all[i-1].Revision)
		}
	}
	if last := all[len(all)-1]; last != w.Snapshot() {
		t.Error("OnChange did not hear of the newest snapshot")
	}
}

func TestFairnessOwners(t *testing.T) {
	w := newWorld(t, 1)
	w.add("each", 1, perRow(1, double), nil)
	w.add("each", 2, perRow(1, double), nil)
	w.add("shared", 1, perRow(1, double), func(m *modelrepo.Manifest) { m.Fairness, m.Weight = modelrepo.FairModel, 3 })
	w.add("shared", 2, perRow(1, double), nil)
	w.load("each")
	flows := func() map[string]float64 {
		got := map[string]float64{}
		for _, f := range w.flows() {
			got[f.Name] = f.Weight
		}
		return got
	}
	if diff := cmp.Diff(map[string]float64{"each@1": 1, "each@2": 1, "shared": 3}, flows()); diff != "" {
		t.Errorf("flows (-want +got):\n%s", diff)
	}
	for _, v := range []int64{1, 2} {
		if err := w.Unload(t.Context(), "shared", v); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Unload(t.Context(), "each", 1); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(map[string]float64{"each@2": 1}, flows()); diff != "" {
		t.Errorf("flows after unloading (-want +got):\n%s", diff)
	}
}

func TestUnloadWaitsForRunsInFlight(t *testing.T) {
	w := newWorld(t, 1)
	entered, release := make(chan struct{}), make(chan struct{})
	f, block := perRow(1, double), false
	run := f.Answer
	f.Answer = func(b *tensor.Batch) error {
		if block {
			entered <- struct{}{}
			<-release
		}
		return run(b)
	}
	w.add("m", 1, f, nil)
	v := w.load("m")
	block = true

	answered := make(chan error, 1)
	c := ask(v, 1, 21)
	go func() { answered <- w.Predict(context.Background(), c) }()
	<-entered

	// Nobody waits for it: the version keeps draining.
	if err := w.Unload(expired(t), "m", 1); !errors.Is(err, context.Canceled) {
		t.Errorf("Unload that may not wait: %v", err)
	}
	if got := w.version("m", 1).State; got != catalog.Unloading {
		t.Errorf("state %v while draining", got)
	}
	if err := w.Predict(t.Context(), ask(v, 1, 1)); !errors.Is(err, catalog.ErrNotReady) {
		t.Errorf("a request while draining: %v", err)
	}

	unloaded := make(chan error, 1)
	before := w.Snapshot()
	go func() { unloaded <- w.Unload(context.Background(), "m", 1) }()
	weftest.Until(t, "the other call has claimed the version", func() bool { return w.Snapshot() != before })
	if err := w.Unload(expired(t), "m", 1); !errors.Is(err, context.Canceled) {
		t.Errorf("who does not wait for it a second time: %v", err)
	}
	release <- struct{}{}
	if err := <-unloaded; err != nil {
		t.Fatal(err)
	}
	if err := <-answered; err != nil || values(c.Results[0])[0] != 42 {
		t.Errorf("the request in flight: %v, %v", err, c.Results)
	}
	if f.Closed() != 1 {
		t.Errorf("the session was closed %d times", f.Closed())
	}
	w.states("m ")
	if err := w.Unload(t.Context(), "m", 1); !errors.Is(err, catalog.ErrUnknown) {
		t.Errorf("unloading it again: %v", err)
	}
	if err := w.Predict(t.Context(), ask(v, 1, 1)); !errors.Is(err, catalog.ErrNotReady) {
		t.Errorf("a request to a version that is gone: %v", err)
	}
}

// TestCloseInterruptsLoading: a load that waits for its device does not delay the end.
func TestCloseInterruptsLoading(t *testing.T) {
	w := newWorld(t, 1)
	opening := make(chan struct{})
	w.add("ready", 1, perRow(1, double), nil)
	w.load("ready")
	w.add("slow", 1, func(ctx context.Context) (engine.Opened, error) {
		close(opening)
		<-ctx.Done()
		return engine.Opened{}, context.Cause(ctx)
	}, nil)
	loaded := make(chan error, 1)
	go func() { loaded <- w.Reconcile(context.Background(), w.listing) }()
	<-opening
	if err := w.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := <-loaded; err == nil {
		t.Error("the interrupted Reconcile reports success")
	}
	w.states("ready ", "slow ") // but no version
	if err := w.Reconcile(t.Context(), w.listing); err == nil {
		t.Error("a closed host loads")
	}
}

// TestCloseTellsWhoWaitsForALoad: the version did not fail, the server ends.
func TestCloseTellsWhoWaitsForALoad(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 1)
		w.add("m", 1, func(ctx context.Context) (engine.Opened, error) {
			<-ctx.Done()
			return engine.Opened{}, context.Cause(ctx)
		}, nil)
		w.Follow(w.listing)
		told := make(chan error, 16)
		for range cap(told) {
			go func() { told <- w.LoadVersion(t.Context(), "m", 1) }()
		}
		synctest.Wait()
		if err := w.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
		for range cap(told) {
			err := <-told
			if _, failed := errors.AsType[*catalog.LoadError](err); failed || !errors.Is(err, sharedsched.ErrDraining) {
				t.Errorf("who waited is told %v, want that the server ends", err)
			}
		}
		if err := w.LoadVersion(t.Context(), "m", 1); !errors.Is(err, sharedsched.ErrDraining) {
			t.Errorf("who comes later is told %v", err)
		}
	})
}

// TestSlowProofsHoldUpNoOther: a proof that waits for its turns on the device takes no room from versions that are to
// be read.
func TestSlowProofsHoldUpNoOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 4)
		goOn := make(chan struct{})
		for _, name := range []string{"a", "b", "c"} { // more than are opened at once
			f := times(1)
			run := f.Answer
			f.Answer = func(b *tensor.Batch) error {
				<-goOn
				return run(b)
			}
			w.add(name, 1, f, nil)
		}
		w.Follow(w.listing)
		synctest.Wait()
		w.add("quick", 1, times(1), nil)
		w.Follow(w.listing)
		synctest.Wait()
		w.states("a/1 loading", "b/1 loading", "c/1 loading", "quick/1 ready")
		close(goOn)
		if err := w.Settled(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

// TestOpeningsAndProofsThatHangHoldUpNoOther: they go on, and others are opened and proven next to them.
func TestOpeningsAndProofsThatHangHoldUpNoOther(t *testing.T) {
	for hanging, change := range map[string]func(f *fake, goOn chan struct{}) any{
		"openings": func(f *fake, goOn chan struct{}) any {
			return func(context.Context) (engine.Opened, error) {
				<-goOn
				o := f.Open()
				o.Device = "dev"
				return o, nil
			}
		},
		"proofs": func(f *fake, goOn chan struct{}) any {
			run := f.Answer
			f.Answer = func(b *tensor.Batch) error {
				<-goOn
				return run(b)
			}
			return f
		},
	} {
		synctest.Test(t, func(t *testing.T) {
			const many = 8 // as many as are opened or proven at once
			w := newWorld(t, many+1)
			goOn := make(chan struct{})
			for i := range many {
				w.add(fmt.Sprint("hangs", i), 1, change(times(1), goOn), nil)
			}
			w.Follow(w.listing)
			synctest.Wait()
			w.add("quick", 1, times(1), nil)
			w.Follow(w.listing)
			time.Sleep(2 * time.Minute)
			if s := w.version("quick", 1).State; s != catalog.Ready {
				t.Errorf("while %d %s hang another version is %v", many, hanging, s)
			}
			close(goOn)
			if err := w.Settled(t.Context()); err != nil {
				t.Error(err)
			}
			for i := range many {
				if s := w.version(fmt.Sprint("hangs", i), 1).State; s != catalog.Ready {
					t.Errorf("one of the %s that hung ended, and its version is %v", hanging, s)
				}
			}
		})
	}
}
