package host_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weftserve/weft/runtime/catalog"
	"github.com/weftserve/weft/runtime/engine"
	"github.com/weftserve/weft/runtime/modelrepo"
	"github.com/weftserve/weft/runtime/tensor"
	"github.com/weftserve/weft/sharedsched"
)

// TestStepWithoutRows: where rows are left out, a version that is served without rows would get all of them, and give
// answers to the wrong rows.
func TestStepWithoutRows(t *testing.T) {
	for name, c := range map[string]struct {
		text, want string
		inputs     int // of m1
		settings   func(*modelrepo.Manifest)
	}{
		"the step with the condition": {
			selection, `steps[1].inputs.x: expected rows along dimension 0, as x has, since conditions (when) leave rows out: version 1 of model m1 is served with no rows there`, 1,
			func(m *modelrepo.Manifest) { m.Batching.Unbatched = []string{"x"} },
		},
		"its two inputs have other rows": {
			strings.Replace(selection, "version: 1, inputs: {x: x}, when", "version: 1, inputs: {x: x, z: x}, when", 1),
			`steps[1].inputs.x: expected rows along dimension 0, as x has, since conditions (when) leave rows out: version 1 of model m1 is served with no rows there`, 2,
			func(m *modelrepo.Manifest) { m.Batching.Mode = modelrepo.BatchOff },
		},
		"a step before it": {
			`
steps:
- {name: look, model: m0, version: 1, inputs: {x: x}}
- {name: enc, model: m1, version: 1, inputs: {x: x}}
- {name: rank, model: m0, version: 1, inputs: {x: enc.y}, when: {output: look.y, above: 0.5}}
outputs: {score: look.y, rank: rank.y}
defaults: {rank: -1}
`, `steps[1].inputs.x: expected rows along dimension 0, as x has, since conditions (when) leave rows out: version 1 of model m1 is served with no rows there`, 1,
			func(m *modelrepo.Manifest) { m.Batching.Unbatched = []string{"x"} },
		},
	} {
		w := newWorld(t, 1)
		w.add("m0", 1, line{1, 0}.engine(), trustBatches)
		e := line{2, 0}.engine()
		if c.inputs > 1 {
			e.Declared.Inputs = append(e.Declared.Inputs, spec("z", tensor.Float32, tensor.Unknown, 1))
		}
		w.add("m1", 1, e, c.settings)
		w.addPipeline(c.text)
		w.reconcile()
		if v := w.version("p", 1); v.State == catalog.Ready || !strings.Contains(v.Cause, c.want) {
			t.Errorf("%s: the pipeline is %v: %s\nwant: %s", name, v.State, v.Cause, c.want)
		}
	}
}

// TestStepWithOtherSettings: the pipeline asks the version that was loaded again with other settings, and the one
// before is closed.
func TestStepWithOtherSettings(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 2)
		w.add("m0", 1, line{1, 0}.engine(), trustBatches)
		old := line{2, 0}.engine()
		w.add("m1", 1, old, trustBatches)
		w.addPipeline(selection)
		w.load("p")
		next := line{2, 0}.engine()
		w.put("m1", 1, next, "first") // the same files
		w.edit("m1", func(m *modelrepo.Manifest) { m.ONNX.IntraOpThreads = 3 })
		w.reconcile()
		time.Sleep(time.Second)
		if _, replicas := w.Known(); old.Closed() != 1 || replicas > 0 {
			t.Errorf("the old session was closed %d times, %d replicas linger", old.Closed(), replicas)
		}
		next.Forget()
		if err := w.Predict(t.Context(), ask(w.version("p", 1), 1, 3)); err != nil || len(next.Forget()) != 1 {
			t.Errorf("the new session did not answer: %v", err)
		}
	})
}

// TestStepThatCrashes: a step that is taken out because it crashes is asked no more, and again once it is back.
func TestStepThatCrashes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, quarantine := crashing()
		w := newWorld(t, 1)
		w.add("m0", 1, line{1, 0}.engine(), trustBatches)
		w.add("m1", 1, func(context.Context) (engine.Opened, error) {
			o := f.Open()
			o.Device = "dev"
			return o, nil
		}, trusted)
		w.addPipeline(selection)
		p := w.load("p")
		for i := range 3 {
			_ = w.Predict(t.Context(), ask(w.version("m1", 1), 1, poison+float32(i)))
		}
		synctest.Wait()
		f.Forget()
		quarantine.Forget()
		err := w.Predict(t.Context(), ask(p, 1, poison+10))
		if !errors.Is(err, catalog.ErrNotReady) || !strings.Contains(err.Error(), `step "rank": model "m1" version 1`) {
			t.Errorf("with a step that is taken out: %v", err)
		}
		if runs := len(f.Forget()) + len(quarantine.Forget()); runs > 0 {
			t.Errorf("it ran %d times more", runs)
		}
		time.Sleep(time.Minute)
		if err := w.Predict(t.Context(), ask(p, 1, 3)); err != nil {
			t.Errorf("after it is back: %v", err)
		}
	})
}

// TestStepComesBack: a pipeline is shown as one that does not answer while a step is gone, and answers again later.
func TestStepComesBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 1)
		w.add("m0", 1, line{1, 0}.engine(), trustBatches)
		w.add("m1", 1, line{2, 0}.engine(), trustBatches)
		w.addPipeline(selection)
		p := w.load("p")
		w.edit("m1", func(m *modelrepo.Manifest) { m.Versions.Transition = modelrepo.ResourceFirst })
		w.put("m1", 1, errors.New("cut short"), "second") // the old one makes room for it
		w.Follow(w.listing)
		time.Sleep(time.Minute)
		if err := w.Predict(t.Context(), ask(p, 1, 3)); !errors.Is(err, catalog.ErrNotReady) {
			t.Errorf("without a step: %v", err)
		}
		if why := w.version("p", 1).Stalled; why != `step "rank": model "m1" version 1 does not answer` {
			t.Errorf("it is shown as %q", why)
		}
		w.put("m1", 1, line{2, 0}.engine(), "first")
		w.Follow(w.listing)
		time.Sleep(time.Minute)
		if why := w.version("p", 1).Stalled; why != "" {
			t.Errorf("a minute after the step is back it is shown as %q", why)
		}
		if err := w.Predict(t.Context(), ask(p, 1, 3)); err != nil {
			t.Errorf("and answers with %v", err)
		}
	})
}

// TestRequestOfAPipelineIsWaitedFor: an accepted request is answered, although the pipeline and its steps are unloaded.
func TestRequestOfAPipelineIsWaitedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 1)
		var took time.Duration
		w.add("m0", 1, perRow(1, func([]float32) error {
			time.Sleep(took)
			return nil
		}), trustBatches)
		w.add("m1", 1, line{2, 0}.engine(), trustBatches)
		w.addPipeline(selection)
		p := w.load("p")
		took = 15 * time.Second
		began := time.Now()
		ended := make(chan error)
		go func() {
			call := ask(p, 1, 3)
			call.Limit = time.Now().Add(time.Hour)
			ended <- w.Predict(t.Context(), call)
		}()
		time.Sleep(time.Second)
		unloaded := make(chan time.Time)
		go func() {
			if err := errors.Join(w.UnloadVersion(t.Context(), "p", 1), w.UnloadVersion(t.Context(), "m1", 1)); err != nil {
				t.Error(err)
			}
			unloaded <- time.Now()
		}()
		if err := <-ended; err != nil {
			t.Errorf("the request that was accepted: %v", err)
		}
		if at := <-unloaded; at.Before(began.Add(took)) {
			t.Error("the versions were unloaded before the request was answered")
		}
	})
}

// TestStepWithARemark: a version that serves the files that the pipeline was read with is good, although its newest
// settings could not be followed.
func TestStepWithARemark(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 1)
		w.add("m0", 1, line{1, 0}.engine(), trustBatches)
		w.add("m1", 1, line{2, 0}.engine(), trustBatches)
		w.load("m1")
		w.edit("m1", func(m *modelrepo.Manifest) { m.ONNX.IntraOpThreads = 3 })
		w.put("m1", 1, errors.New("too many threads"), "first")
		w.Follow(w.listing)
		time.Sleep(time.Second)
		if v := w.version("m1", 1); v.State != catalog.Ready || v.Cause == "" {
			t.Fatalf("m1 is %v: %q", v.State, v.Cause)
		}
		w.addPipeline(selection)
		w.Follow(w.listing)
		time.Sleep(time.Second)
		if v := w.version("p", 1); v.State != catalog.Ready {
			t.Errorf("the pipeline is %v: %s", v.State, v.Cause)
		}
	})
}

// TestShadowOfAPipeline: its device time is the pipeline's, too.
func TestShadowOfAPipeline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 1)
		for _, name := range []string{"m0", "m1"} {
			w.add(name, 1, perRow(1, func([]float32) error {
				time.Sleep(time.Millisecond)
				return nil
			}), trustBatches)
		}
		w.addPipeline(selection)
		v := w.load("p")
		served := func() map[string]time.Duration {
			all := map[string]time.Duration{}
			for _, f := range w.sched.State().Flows {
				all[f.Name] += f.Served
			}
			return all
		}
		before := served()
		for range 10 {
			call := ask(v, 1, 1)
			call.Shadow, call.Priority = true, sharedsched.Sheddable
			if err := w.Predict(t.Context(), call); err != nil {
				t.Fatal(err)
			}
		}
		after := served()
		if m0, m1 := after["m0@1"]-before["m0@1"], after["m1@1"]-before["m1@1"]; m0 != 0 || m1 != 0 {
			t.Errorf("the steps' models were charged %v and %v", m0, m1)
		}
	})
}

// resourceFirst has a version go before the next one comes.
func resourceFirst(m *modelrepo.Manifest) {
	trustBatches(m)
	m.Versions.Transition = modelrepo.ResourceFirst
}

// TestStepGoesAndAnotherIsReplaced: a step goes within its patience, whatever becomes of the other steps meanwhile.
func TestStepGoesAndAnotherIsReplaced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 1)
		w.add("m0", 1, line{1, 0}.engine(), trustBatches)
		w.add("m1", 1, line{2, 0}.engine(), resourceFirst)
		p := w.addPipeline(selection)
		v := w.load("p")
		w.put("m1", 1, line{100, 0}.engine(), "second")
		w.resolve(p)
		w.Follow(w.listing)
		time.Sleep(3 * time.Second)
		w.put("m0", 1, line{1, 0}.engine(), "first")
		w.edit("m0", func(m *modelrepo.Manifest) { m.ONNX.IntraOpThreads = 3 })
		w.Follow(w.listing)
		time.Sleep(time.Second)
		_ = w.Predict(t.Context(), ask(v, 1, 3)) // takes what is in the place of m0
		time.Sleep(time.Minute)
		if m1 := w.version("m1", 1); m1.State != catalog.Ready {
			t.Errorf("after a minute m1 is %v", m1.State)
		}
	})
}

// TestStepChangesTwice: a pipeline does not wait for files that were replaced before they were served, and keeps no
// other step meanwhile.
func TestStepChangesTwice(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 1)
		w.add("m0", 1, line{1, 0}.engine(), resourceFirst)
		w.add("m1", 1, line{2, 0}.engine(), resourceFirst)
		p := w.addPipeline(selection)
		w.load("p")
		for i, files := range []string{"second", "third"} {
			w.put("m1", 1, func(context.Context) (engine.Opened, error) {
				time.Sleep(3 * time.Second)
				o := line{float32(10 * (i + 1)), 0}.engine().Open()
				o.Device = "dev"
				return o, nil
			}, files)
			w.resolve(p)
			w.Follow(w.listing)
			time.Sleep(time.Second)
		}
		time.Sleep(30 * time.Second)
		w.put("m0", 1, line{1, 0}.engine(), "second")
		w.resolve(p)
		w.Follow(w.listing)
		time.Sleep(10 * time.Minute)
		if m0 := w.version("m0", 1); m0.State != catalog.Ready {
			t.Errorf("m0 is %v %q", m0.State, m0.Cause)
		}
		call := ask(w.version("p", 1), 1, 3)
		if err := w.Predict(t.Context(), call); err != nil || values(call.Results[0])[0] != 60 {
			p := w.version("p", 1)
			t.Errorf("p is %v %q %q, and answers %v, %v; want 60", p.State, p.Cause, p.Stalled, call.Results, err)
		}
	})
}
