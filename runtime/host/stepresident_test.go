package host_test

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weftserve/weft/runtime/catalog"
	"github.com/weftserve/weft/runtime/engine"
	"github.com/weftserve/weft/runtime/host"
	"github.com/weftserve/weft/runtime/modelrepo"
)

// addVersions puts the versions 1 to n of the models m and p into the listing. Version i of m gives i times x, and that
// of p asks it. The policy of both selects the latest one.
func (w *world) addVersions(n int64) {
	w.t.Helper()
	for i := int64(1); i <= n; i++ {
		w.add("m", i, line{float32(i), 0}.engine(), trustBatches)
	}
	for i := int64(1); i <= n; i++ {
		p, err := modelrepo.ReadPipeline("pipeline.yaml", fmt.Appendf(nil,
			"joined: false\nsteps: [{name: s, model: m, version: %d, inputs: {x: x}}]\noutputs: {y: s.y}\n", i))
		if err != nil {
			w.t.Fatal(err)
		}
		w.add("p", i, joined(p), trustBatches)
		p.Steps[0].Of = w.listing.Models[0].Versions[i-1]
		w.change("p", func(m *modelrepo.Model) { m.Versions[i-1].Pipeline = p })
	}
	w.choose("m", n)
	w.choose("p", n)
}

// ownStep has a version of p answer, by its own step.
func (w *world) ownStep(number int64) {
	w.t.Helper()
	v := w.version("p", number)
	call := ask(v, 1, 3)
	if err := w.Predict(w.t.Context(), call); err != nil || values(call.Results[0])[0] != float32(3*number) {
		w.t.Errorf("p/%d is %v (%s), and answers %v, %v; want %d", number, v.State, v.Cause, call.Results, err, 3*number)
	}
}

// newest is what requests without a version get; 0: nothing.
func (w *world) newest(model string) int64 {
	if v := w.Snapshot().Model(model).Newest(); v != nil {
		return v.Number
	}
	return 0
}

// TestDirectCallersOfSteps: a version that a pipeline asks answers requests without a version until a newer one is
// ready, and again when that is rolled back.
func TestDirectCallersOfSteps(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 1)
		w.add("m0", 1, line{1, 0}.engine(), trustBatches)
		w.add("m1", 1, line{2, 0}.engine(), trustBatches)
		w.addPipeline(selection)
		w.load("p")
		expect := func(when string, want int64) {
			t.Helper()
			if got := w.newest("m0"); got != want {
				t.Errorf("%s: requests without a version get %d, want %d; %v", when, got, want, states(w.Snapshot()))
			}
			if err := w.Predict(t.Context(), ask(w.version("p", 1), 1, 3)); err != nil {
				t.Errorf("%s: %v", when, err)
			}
		}
		w.add("m0", 2, errors.New("cut short"), nil)
		w.choose("m0", 2)
		w.Follow(w.listing)
		time.Sleep(10 * time.Second)
		expect("version 2 is broken", 1)
		slow := line{3, 0}.engine()
		w.put("m0", 2, func(ctx context.Context) (engine.Opened, error) {
			time.Sleep(time.Minute)
			o := slow.Open()
			o.Device = "dev"
			return o, context.Cause(ctx)
		}, "second")
		w.Follow(w.listing)
		time.Sleep(10 * time.Second)
		expect("version 2 is being loaded", 1)
		time.Sleep(2 * time.Minute)
		expect("version 2 is ready", 2)
		if _, err := w.Decide("m0", catalog.Decision{RollBack: &catalog.RolledBack{Version: 2}}); err != nil {
			t.Fatal(err)
		}
		expect("version 2 was rolled back", 1)
	})
}

// TestOlderPipelines: a version of a pipeline that the policy does not select gets its step, too: loaded by hand, and
// after a rollback. Direct callers of the step's model do not notice.
func TestOlderPipelines(t *testing.T) {
	for what, come := range map[string]func(w *world) error{
		"loaded by hand": func(w *world) error { return w.LoadVersion(w.t.Context(), "p", 1) },
		"after a rollback": func(w *world) error {
			_, err := w.Decide("p", catalog.Decision{RollBack: &catalog.RolledBack{Version: 2}})
			return err
		},
	} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t, 1)
			w.addVersions(2)
			if err := errors.Join(w.Reconcile(t.Context(), w.listing), come(w)); err != nil {
				t.Fatalf("%s: %v", what, err)
			}
			time.Sleep(time.Minute)
			w.ownStep(1)
			if got := w.newest("m"); got != 2 {
				t.Errorf("%s: requests to m without a version get %d, want 2", what, got)
			}
		})
	}
}

// TestOlderPipelineOutlivesTheHost: what leads to it is known to the next process, which loads its step, too.
func TestOlderPipelineOutlivesTheHost(t *testing.T) {
	state := filepath.Join(t.TempDir(), "state")
	for life, lead := range []func(w *world) error{
		func(w *world) error {
			_, err := w.SetTraffic("p", &catalog.Traffic{Split: split(1).Split, By: "me"}, 0)
			return err
		},
		func(w *world) error {
			err := w.SetLabel("p", "stable", 1, "me")
			_, unsplit := w.SetTraffic("p", &catalog.Traffic{By: "me"}, 0)
			return errors.Join(err, unsplit)
		},
		func(*world) error { return nil },
	} {
		t.Run(fmt.Sprint("life ", life+1), func(t *testing.T) {
			w := newWorldOf(t, 1, keeping(t, state))
			w.addVersions(2)
			if life == 0 {
				w.choose("p", 1)
			}
			w.reconcile()
			w.ownStep(1)
			if err := lead(w); err != nil {
				t.Fatal(err)
			}
		})
	}
}

// TestManyOlderPipelines: each of them keeps its step, however many there are, until it goes.
func TestManyOlderPipelines(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorldOf(t, 1, func(c *host.Config) {
			c.LastUse = func(string, int64) time.Time { return time.Time{} }
		})
		const n = 6
		w.addVersions(n)
		w.Follow(w.listing)
		for i := int64(1); i <= n; i++ {
			if err := w.LoadVersion(t.Context(), "p", i); err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(time.Hour)
		for i := int64(1); i <= n; i++ {
			w.ownStep(i)
		}
		for i := int64(1); i < n; i++ {
			if err := w.UnloadVersion(t.Context(), "p", i); err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(time.Minute)
		if got := states(w.Snapshot()); !slices.Equal(got, []string{"m/6 ready", "p/6 ready"}) {
			t.Errorf("there are %v", got)
		}
	})
}

// TestUnloadStepWhileLoading: a version is not unloaded by hand while a pipeline that asks it is being loaded.
func TestUnloadStepWhileLoading(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 1)
		w.addVersions(1)
		slow := w.engines[w.listing.Models[1].Versions[0].Path].(*fake)
		w.engine(w.listing.Models[1].Versions[0].Path, func(context.Context) (engine.Opened, error) {
			time.Sleep(time.Second)
			o := slow.Open()
			o.Device = "dev"
			return o, nil
		})
		w.Follow(w.listing)
		time.Sleep(time.Second / 2)
		err := w.UnloadVersion(t.Context(), "m", 1)
		if used, is := errors.AsType[*catalog.InUseError](err); !is || !slices.Equal(used.By, []string{`pipeline "p" version 1`}) {
			t.Errorf("the error is %v, want one that names the pipeline", err)
		}
		time.Sleep(time.Minute)
		w.ownStep(1)
	})
}
