package host_test

import (
	"errors"
	"fmt"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weftserve/weft/runtime/catalog"
	"github.com/weftserve/weft/runtime/modelrepo"
)

const takenOut = "version_demoted"

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
		{files: "a"}, // the finding was of other batches than the ones that were asked for last
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
