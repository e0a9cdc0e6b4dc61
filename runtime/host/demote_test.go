package host_test

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/weftserve/weft/runtime/catalog"
	"github.com/weftserve/weft/runtime/modelrepo"
	"github.com/weftserve/weft/runtime/tensor"
)

const takenOut = "version_demoted"

// gated makes the engine's runs wait, from the time that shut is called until it is called again.
func gated(f *fake) (shut func()) {
	var mu sync.Mutex
	var gate chan struct{} // guarded by mu
	run := f.Answer
	f.Answer = func(b *tensor.Batch) error {
		mu.Lock()
		wait := gate
		mu.Unlock()
		if wait != nil {
			<-wait
		}
		return run(b)
	}
	return func() {
		mu.Lock()
		defer mu.Unlock()
		if gate == nil {
			gate = make(chan struct{})
			return
		}
		close(gate)
		gate = nil
	}
}

// asked sends the calls at once, in their order, and returns a func that waits for their answers.
func asked(t *testing.T, w *world, calls []*catalog.Call) (wait func() []error) {
	errs, done := make([]error, len(calls)), make(chan struct{}, len(calls))
	for i, c := range calls {
		go func() {
			errs[i] = w.Predict(t.Context(), c)
			done <- struct{}{}
		}()
		synctest.Wait()
	}
	return func() []error {
		for range calls {
			<-done
		}
		return errs
	}
}

// TestADemotedVersionJoinsNothing: neither waiting requests nor new ones do; a request that was split goes on with the
// rest of its rows.
func TestADemotedVersionJoinsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 1)
		f := perRow(1, double)
		shut := gated(f)
		w.add("m", 1, f, func(m *modelrepo.Manifest) { m.Batching.MaxBatchSize, m.Batching.MaxRequestRows = 4, 8 })
		v := w.load("m")
		f.Forget()
		shut()
		calls := []*catalog.Call{ask(v, 7, 1, 2, 3, 4, 5, 6, 7)}
		for i := range 5 {
			calls = append(calls, ask(v, 1, float32(i)))
		}
		calls = append(calls, ask(v, 3, 1, 2, 3))
		wait := asked(t, w, calls)
		w.Demote("m", 1, "rows meet")
		w.Demote("m", 1, "rows meet again")
		shut()
		for i, err := range wait() {
			if err != nil {
				t.Fatal(err)
			}
			for k, x := range values(calls[i].Inputs[0]) {
				if y := values(calls[i].Results[0]); y[k] != 2*x {
					t.Errorf("request %d row %d: %v for %v", i, k, y[k], x)
				}
			}
		}
		if diff := cmp.Diff([]int{4, 3, 1, 1, 1, 1, 1, 3}, f.Forget()); diff != "" {
			t.Errorf("rows of each run (-want +got):\n%s", diff)
		}
		synctest.Wait()
		b := w.version("m", 1).Batching
		if b.Batched || b.Reason != "taken out of batching: rows meet" || b.MaxBatchSize != 1 || b.MaxRequestRows != 0 {
			t.Errorf("published %+v", b)
		}
		if n := len(w.logs.Event(takenOut)); n != 1 {
			t.Errorf("logged %d times", n)
		}
		answered(t, w, w.version("m", 1), 8)
		if runs := f.Forget(); slices.Max(runs) != 1 {
			t.Errorf("later runs: %v rows", runs)
		}
	})
}

// TestADemotedVersionPadsNothing: padding may be the fault. Batches in flight, and the rest of a request that was
// split, are completed as they were begun.
func TestADemotedVersionPadsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 1)
		f := eachRow(doubled)
		var widths []int64
		run := f.Answer
		f.Answer = func(b *tensor.Batch) error {
			widths = append(widths, b.Inputs[0].Shape[1])
			return run(b)
		}
		shut := gated(f)
		w.add("m", 1, f, func(m *modelrepo.Manifest) {
			buckets(4, 8)(m)
			m.Batching.MaxBatchSize = 4
		})
		v := w.load("m")
		if !v.Batching.Batched || len(v.Signature.Inputs[0].Variable.Buckets) != 2 {
			t.Fatalf("not padded: %+v", v.Batching)
		}
		f.Forget()
		widths = nil
		shut()
		calls := []*catalog.Call{
			ask(v, 1, 1, 2, 3), // holds the device
			ask(v, 6, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18), ask(v, 1, 1, 2),
		}
		wait := asked(t, w, calls)
		shut()
		shut() // the next run, which has 4 of the 6 rows, waits
		synctest.Wait()
		w.Demote("m", 1, "rows meet")
		shut()
		for i, err := range wait() {
			if err != nil {
				t.Fatal(err)
			}
			if y := values(calls[i].Results[0]); len(y) != len(values(calls[i].Inputs[0])) || y[1] != 4 {
				t.Errorf("request %d: %v", i, y)
			}
		}
		if diff := cmp.Diff([]int{1, 4, 2, 1}, f.Forget()); diff != "" {
			t.Errorf("rows of each run (-want +got):\n%s", diff)
		}
		if diff := cmp.Diff([]int64{4, 4, 4, 2}, widths); diff != "" {
			t.Errorf("lengths of each run (-want +got):\n%s", diff)
		}
		synctest.Wait()
		if v := w.version("m", 1); v.Batching.Batched || len(v.Signature.Inputs[0].Variable.Buckets) != 0 ||
			v.Signature.Inputs[0].Variable.Most != 8 {
			t.Errorf("published %+v, %+v", v.Batching, v.Signature.Inputs[0].Variable)
		}
	})
}

// TestABatchThatWasFormedGoesOn: a batch that a lane has taken when its version is demoted is answered as it was begun,
// also requests of several lengths.
func TestABatchThatWasFormedGoesOn(t *testing.T) {
	b := newBench(t, eachRow(doubled), buckets(4))
	b.sched.formed = func() { b.Demote("m", 1, "rows meet") }
	calls := []*catalog.Call{ask(nil, 1, 1, 2), ask(nil, 1, 1, 2, 3), ask(nil, 1, 1, 2, 3, 4)}
	errs, _ := b.together(0, calls)
	for i, err := range errs {
		if err != nil || len(values(calls[i].Results[0])) != i+2 {
			t.Errorf("request %d: %v %v", i, err, calls[i].Results)
		}
	}
	if b.sched.settings.Batched {
		t.Error("the scheduler still forms batches")
	}
}

// TestADemotionLasts until the version is loaded again or its manifest asks for other batches: neither a move in the
// scheduler, nor a further device, nor the loss of all of them ends it.
func TestADemotionLasts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, m := newFleet(t, time.Millisecond, "a", "b", "c")
		w.add("m", 1, m.open, nil)
		w.load("m")
		w.Demote("m", 1, "rows meet")
		synctest.Wait()
		for _, change := range []func(){
			func() { w.edit("m", func(m *modelrepo.Manifest) { m.Weight = 3 }) },
			func() { w.edit("m", func(m *modelrepo.Manifest) { m.Batching.MaxQueue = 77 }) },
			func() { w.edit("m", func(m *modelrepo.Manifest) { m.Replicas = 2 }) },
			func() { w.edit("m", func(m *modelrepo.Manifest) { m.Replicas = 1 }) },
			func() { w.LoseDevice(w.version("m", 1).Device, errors.New("fell off the bus")) },
		} {
			change()
			synctest.Wait()
			w.load("m")
			synctest.Wait()
			if w.version("m", 1).State != catalog.Ready {
				t.Fatalf("%v %s", w.version("m", 1).State, w.version("m", 1).Cause)
			}
			if b := w.version("m", 1).Batching; b.Batched || b.Reason != "taken out of batching: rows meet" {
				t.Errorf("published %+v", b)
			}
			for _, s := range w.sched.State().Versions {
				if s.Settings.Batched {
					t.Errorf("a scheduled replica joins requests: %+v", s.Settings)
				}
			}
		}
		w.edit("m", func(m *modelrepo.Manifest) { m.Batching.MaxBatchSize = 16 })
		w.load("m")
		if b := w.version("m", 1).Batching; !b.Batched || b.MaxBatchSize != 16 {
			t.Errorf("published %+v", b)
		}
	})
}

// TestADemotionOutlivesTheHost: what was found of files holds for them in whatever directory they are and under
// whatever number, until the manifest asks for other batches.
func TestADemotionOutlivesTheHost(t *testing.T) {
	state := filepath.Join(t.TempDir(), "state")
	tolerant := func(m *modelrepo.Manifest) { m.Batching.Tolerance = 1e-3 }
	for i, life := range []struct {
		files  string
		change func(*modelrepo.Manifest)
		taken  bool // out of batching
	}{
		{files: "a"},
		{files: "a", taken: true},
		{files: "b"},
		{files: "a", change: func(m *modelrepo.Manifest) { m.Weight = 3 }, taken: true},
		{files: "a", change: tolerant},
		{files: "a", change: tolerant},
		{files: "a"}, // the finding was of other batches than those that were asked for last
	} {
		t.Run(fmt.Sprint("life ", i+1), func(t *testing.T) {
			w := newWorldOf(t, 1, keeping(t, state))
			w.addFile("m", []byte(life.files), perRow(1, double), life.change)
			b := w.load("m").Batching
			if b.Batched == life.taken || life.taken && b.Reason != "taken out of batching: rows meet" {
				t.Errorf("published %+v", b)
			}
			if i == 0 {
				w.Demote("m", 1, "rows meet")
			}
		})
	}
}
