package host_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weftserve/weft/internal/config"
	"github.com/weftserve/weft/runtime/catalog"
	"github.com/weftserve/weft/runtime/modelrepo"
	"github.com/weftserve/weft/runtime/tensor"
)

// TestLoadingIsShown: a version that is being loaded says in which stage it is, and how far; the log says so every ten
// seconds.
func TestLoadingIsShown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, m := newFleet(t, 200*time.Millisecond, "cpu")
		m.opens["cpu"] = func() error {
			time.Sleep(25 * time.Second)
			return nil
		}
		w.add("m", 1, m.open, func(f *modelrepo.Manifest) {
			f.Batching.MaxBatchSize, f.Batching.MaxBatchCost = 2, config.Duration(time.Minute)
			f.Warmup = []modelrepo.Warmup{request(1, 100, modelrepo.WarmupInput{Shape: tensor.Shape{1}})}
		})
		began := time.Now()
		w.Follow(w.listing)
		var stages []catalog.Stage
		done, of := map[catalog.Stage]int64{}, map[catalog.Stage]int64{}
		for w.version("m", 1).State == catalog.Loading {
			l := w.version("m", 1).Loading()
			if len(stages) == 0 || stages[len(stages)-1] != l.Stage {
				stages = append(stages, l.Stage)
			}
			if l.Done > l.Of || l.Stage != catalog.StageWaiting && !l.Since.Equal(began) {
				t.Errorf("after %v: %+v", time.Since(began), l)
			}
			done[l.Stage], of[l.Stage] = l.Done, l.Of
			time.Sleep(500 * time.Millisecond)
		}
		if v := w.version("m", 1); v.State != catalog.Ready || v.Loading != nil {
			t.Fatalf("%v, %v; loading %v", v.State, v.Fault, v.Loading != nil)
		}
		// The stages before take no time here, and may be seen or not.
		stages = slices.DeleteFunc(stages, func(s catalog.Stage) bool { return s < catalog.StageOpening })
		if !slices.Equal(stages, []catalog.Stage{catalog.StageOpening, catalog.StageProving, catalog.StageWarmingUp}) {
			t.Errorf("stages %v", stages)
		}
		if runs := int64(m.runs()["cpu"]); of[catalog.StageWarmingUp] != 100 || of[catalog.StageProving] > runs ||
			of[catalog.StageProving] < runs-100-1 || done[catalog.StageWarmingUp] < 97 {
			t.Errorf("%v of %v, in %d runs", done, of, runs)
		}
		lines := w.logs.Event("still_loading")
		if want := int(time.Since(began) / (10 * time.Second)); len(lines) != want {
			t.Errorf("%d lines in %v, want %d", len(lines), time.Since(began), want)
		}
		for _, part := range []string{"stage=opening done=0 of=0 took=10s", "stage=proving done=2", "stage=warming_up"} {
			if len(w.logs.Lines(part)) == 0 {
				t.Errorf("no line has %q: %v", part, w.logs.Lines("still_loading"))
			}
		}
	})
}

// TestLoadingOfWhatWaits: versions that wait for their turn are shown so, and no line of the log is about them; changed
// files are shown while the version serves.
func TestLoadingOfWhatWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, m := newFleet(t, time.Millisecond, "cpu")
		m.opens["cpu"] = func() error {
			time.Sleep(8 * time.Second)
			return nil
		}
		for i := range 6 {
			w.add(fmt.Sprint("m", i), 1, m.open, tiny)
		}
		w.Follow(w.listing)
		time.Sleep(9 * time.Second)
		synctest.Wait()
		waiting := 0
		for i := range 6 {
			if v := w.version(fmt.Sprint("m", i), 1); v.State == catalog.Loading &&
				v.Loading().Stage == catalog.StageWaiting {
				waiting++
			}
		}
		if waiting != 2 {
			t.Errorf("%d versions wait; want 2 loaded, 2 being opened and 2 that wait", waiting)
		}
		time.Sleep(2 * time.Second)
		if lines := w.logs.Event("still_loading"); len(lines) != 2 {
			t.Errorf("%d lines, want those of the two that are being opened", len(lines))
		}
		time.Sleep(time.Minute)
		w.put("m0", 1, m.open, "changed")
		w.Follow(w.listing)
		time.Sleep(time.Second)
		v := w.version("m0", 1)
		if v.State != catalog.Ready || v.Loading == nil || v.Loading().Stage != catalog.StageOpening {
			t.Fatalf("%v, loading %v; want it ready, and its changed files being opened", v.State, v.Loading != nil)
		}
		m.mu.Lock()
		m.opens["cpu"] = func() error { return errors.New("it cannot be opened") }
		m.mu.Unlock()
		time.Sleep(time.Minute)
		if v := w.version("m0", 1); v.Loading != nil {
			t.Errorf("%+v, though nothing is being loaded", v.Loading())
		}
	})
}

// TestASlowProofHoldsNobody: neither the proof of another model, whose runs would each wait for one of the slow proof,
// nor callers that wait until the server has started.
func TestASlowProofHoldsNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 1)
		for name, takes := range map[string]time.Duration{"slow": 200 * time.Millisecond, "quick": time.Millisecond} {
			f := perRow(3, double)
			run := f.Answer
			f.Answer = func(b *tensor.Batch) error {
				time.Sleep(takes) // in the bubble's time
				return run(b)
			}
			w.add(name, 1, f, func(m *modelrepo.Manifest) { m.Batching.MaxBatchCost = config.Duration(time.Minute) })
		}
		began := time.Now()
		w.Follow(w.listing)
		for w.version("quick", 1).State != catalog.Ready {
			time.Sleep(100 * time.Millisecond)
		}
		if took := time.Since(began); took > 2*time.Second {
			t.Errorf("the quick model is ready after %v", took)
		}
		if err := w.Started(t.Context()); err != nil {
			t.Fatal(err)
		}
		if took := time.Since(began); took > 5*time.Second || w.version("slow", 1).State != catalog.Loading ||
			!w.version("slow", 1).Loading().Slow {
			t.Fatalf("started after %v, with the slow model %v", took, w.version("slow", 1).State)
		}
		if last := w.published(); !last[len(last)-1].Model("slow").Versions[0].Loading().Slow {
			t.Error("who follows the models is not told that one is slow")
		}
		if err := w.Settled(t.Context()); err != nil {
			t.Fatal(err)
		}
		if w.version("slow", 1).State != catalog.Ready || time.Since(began) < 20*time.Second {
			t.Errorf("settled after %v, with the slow model %v", time.Since(began), w.version("slow", 1).State)
		}
	})
}
