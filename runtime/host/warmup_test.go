package host_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/weftserve/weft/internal/config"
	"github.com/weftserve/weft/internal/weftest"
	"github.com/weftserve/weft/runtime/catalog"
	"github.com/weftserve/weft/runtime/modelrepo"
	"github.com/weftserve/weft/runtime/tensor"
	"github.com/weftserve/weft/sharedsched"
)

func TestWarmUpRunsEverySizeFourTimes(t *testing.T) {
	f := perRow(3, double)
	w := newWorld(t, 1)
	w.add("m", 1, f, func(m *modelrepo.Manifest) { m.Batching.MaxBatchSize = 8 })
	w.load("m")
	// Of one row there are as many runs as the proof has rows.
	want := []int{1, 1, 1, 1, 1, 1, 1, 1, 2, 2, 2, 2, 4, 4, 4, 4, 8, 8, 8, 8}
	runs := f.Forget()
	if diff := cmp.Diff(want, runs[:min(len(runs), len(want))]); diff != "" {
		t.Errorf("rows of the first runs at load (-want +got):\n%s", diff)
	}
	for size := 1; size <= 8; size++ {
		if !slices.Contains(runs, size) {
			t.Errorf("no batch of %d rows was run", size)
		}
	}
	if most := slices.Max(runs); most > 8 {
		t.Errorf("a batch of %d rows was run", most)
	}
	known := map[int]bool{}
	for _, c := range w.sched.State().Versions[0].Costs {
		for _, e := range c.Entries {
			known[e.Rows] = e.Trusted
		}
	}
	if diff := cmp.Diff(map[int]bool{1: true, 2: true, 4: true, 8: true}, known); diff != "" {
		t.Errorf("which sizes the cost model has measured often enough (-want +got):\n%s", diff)
	}
}

func TestWarmUpOfUnbatchedModels(t *testing.T) {
	for _, test := range []struct {
		name  string
		model *fake
		want  []int
	}{
		{"a fixed batch", fixed(2, 3), []int{2, 2, 2, 2}},
		{"one row that takes longer than a batch may", slowly(perRow(3, double)), []int{1, 1, 1, 1, 2, 2, 3, 3}},
	} {
		w := newWorld(t, 1)
		w.add("m", 1, test.model,
			func(m *modelrepo.Manifest) { m.Batching.MaxBatchCost = config.Duration(100 * time.Microsecond) })
		w.load("m")
		if diff := cmp.Diff(test.want, test.model.Forget()); diff != "" {
			t.Errorf("%s: rows of each run at load (-want +got):\n%s", test.name, diff)
		}
	}
}

// TestWarmUpStopsAtTheBudget has a model of 200 µs a row: the cost of batches beyond the budget need not be known.
func TestWarmUpStopsAtTheBudget(t *testing.T) {
	for _, mode := range []modelrepo.BatchMode{modelrepo.BatchAuto, modelrepo.BatchOn} {
		f := perRow(1, func(row []float32) error {
			for end := time.Now().Add(200 * time.Microsecond); time.Now().Before(end); {
			}
			return double(row)
		})
		w := newWorld(t, 1)
		w.add("m", 1, f, func(m *modelrepo.Manifest) {
			m.Batching.Mode, m.Batching.MaxBatchCost = mode, config.Duration(time.Millisecond)
		})
		v := w.load("m")
		if largest := slices.Max(f.Forget()); largest > 8 {
			t.Errorf("mode %s: a batch of %d rows was run, though 8 take longer than a batch may", mode, largest)
		}
		if want := map[modelrepo.BatchMode]bool{modelrepo.BatchAuto: true}[mode]; want != (v.Batching.MaxBatchSize <= 8) {
			t.Errorf("mode %s: at most %d rows in an execution", mode, v.Batching.MaxBatchSize)
		}
		if mode == modelrepo.BatchAuto && !strings.Contains(v.Batching.Reason, "batching.max_batch_cost (1ms)") {
			t.Errorf("the reason does not tell why there are no larger batches: %s", v.Batching.Reason)
		}
	}
}

// TestOutOfMemoryInWarmUp: sizes that are trusted stay allowed, and the scheduler learns that memory did not suffice
// for one of them; sizes that could not be proven are not used, and the log says what to do.
func TestOutOfMemoryInWarmUp(t *testing.T) {
	for _, test := range []struct {
		mode    modelrepo.BatchMode
		most    int    // rows of a batch, by the settings
		bounded int    // rows of a batch for want of memory
		then    string // the log's record of it
	}{
		{modelrepo.BatchOn, 64, 16, "all the same"},
		{modelrepo.BatchAuto, 16, 0, "no batch has more than 16 rows; to have more proven, unload the version"},
	} {
		w := newWorld(t, 1)
		w.add("m", 1, overRows(3, func(rows [][]float32) error {
			if len(rows) >= 32 {
				return fmt.Errorf("allocate: %w", errMemory)
			}
			return nil
		}), func(m *modelrepo.Manifest) { m.Batching.Mode = test.mode })
		v := w.load("m")
		q := w.sched.State().Versions[0].Queues[0]
		if v.Batching.MaxBatchSize != test.most || q.MemoryRows != test.bounded || q.OutOfMemory == 0 {
			t.Errorf("mode %s: at most %d rows, for want of memory %d for %v; want %d, %d, for a minute",
				test.mode, v.Batching.MaxBatchSize, q.MemoryRows, q.OutOfMemory, test.most, test.bounded)
		}
		then := ""
		for _, r := range w.logs.Records() {
			if effect := weftest.Attr(r, "effect"); effect.Any() != nil {
				then = effect.String()
			}
		}
		if !strings.Contains(then, test.then) {
			t.Errorf("mode %s: the log says %q, want %q", test.mode, then, test.then)
		}
	}
}

// TestCostsOfAnUnprovenModelAreKnown: giving up on rows changes the keys under which costs are kept.
func TestCostsOfAnUnprovenModelAreKnown(t *testing.T) {
	f := perRow(2, double)
	f.Declared.Inputs = append(f.Declared.Inputs, spec("more", tensor.Float32, tensor.Unknown, 2))
	run := f.Answer
	f.Answer = func(b *tensor.Batch) error {
		if len(b.Inputs[0].Data) > 8 {
			b.Inputs[0].Data[3] ^= 0x80 // rows are not independent
		}
		return run(b)
	}
	w := newWorld(t, 1)
	w.add("m", 1, f, nil)
	v := w.load("m")
	if v.Batching.Batched {
		t.Fatal(v.Batching.Reason)
	}
	one := floats(tensor.Shape{1, 2}, 1, 2)
	c := &catalog.Call{Version: v, Rows: 1, Inputs: []tensor.Tensor{one, one}}
	if err := w.Predict(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	known := []int{}
	for _, c := range w.sched.State().Versions[0].Costs {
		if len(c.ShapeKey) == 16 {
			for _, e := range c.Entries {
				known = append(known, e.Samples+e.Outliers)
			}
		}
	}
	if diff := cmp.Diff([]int{4}, known); diff != "" {
		t.Errorf("samples of the served shape, three of them from warm-up (-want +got):\n%s", diff)
	}
}

func TestSettings(t *testing.T) {
	w := newWorld(t, 1)
	w.add("m", 1, perRow(3, double), func(m *modelrepo.Manifest) {
		m.TargetLatency, m.MaxLatency = config.Duration(3*time.Millisecond), config.Duration(time.Second)
		b := &m.Batching
		b.BatchTimeout, b.MaxBatchCost = config.Duration(time.Millisecond), config.Duration(time.Minute)
		b.MaxQueue, b.MaxRequestRows, b.AllowedBatchSizes = 5, 40, []int{4, 16}
		b.OnFull, b.Padding, b.MaxBatchSize = modelrepo.WaitWhenFull, modelrepo.MinimizeCost, 16
	})
	w.add("plain", 1, perRow(3, double), func(m *modelrepo.Manifest) { m.Batching.Adaptive = false })
	w.load("m")
	want := sharedsched.Settings{
		Batched: true, MaxBatchSize: 16, MaxBatchCost: time.Minute, BatchTimeout: time.Millisecond,
		MaxQueue: 5, MaxRequestRows: 40,
		AllowedBatchSizes: []int{4, 16}, TargetLatency: 3 * time.Millisecond, MaxLatency: time.Second,
		Adaptive: true, WaitWhenFull: true, Padding: sharedsched.MinimizeCost,
	}
	versions := w.sched.State().Versions
	got, plain := versions[0], versions[1]
	if got.Name != "m/1" {
		got, plain = plain, got // loaded side by side
	}
	if s := plain.Settings; s.Adaptive || s.WaitWhenFull || s.Padding != sharedsched.PadUp {
		t.Errorf("settings of a model that is to be neither adaptive nor patient: %+v", s)
	}
	if diff := cmp.Diff(want, got.Settings); diff != "" {
		t.Errorf("settings (-want +got):\n%s", diff)
	}
	if got.Name != "m/1" {
		t.Errorf("the scheduler knows the version as %q", got.Name)
	}
}

// TestWarmUpKeepsWithinMemory has images of open size: some sizes that might be tried would take gigabytes.
func TestWarmUpKeepsWithinMemory(t *testing.T) {
	largest := 0
	f := &fake{
		Declared: tensor.Signature{
			Inputs: []tensor.Spec{
				spec("image", tensor.Float32, tensor.Unknown, tensor.Unknown, tensor.Unknown, tensor.Unknown),
			},
			Outputs: []tensor.Spec{spec("y", tensor.Float32, tensor.Unknown)},
		},
		Answer: func(b *tensor.Batch) error {
			largest = max(largest, len(b.Inputs[0].Data))
			return errors.New("no image is good enough")
		},
	}
	w := newWorld(t, 1)
	w.add("m", 1, f, nil)
	if v := w.load("m"); v.State != catalog.Ready {
		t.Errorf("state %v, cause %q", v.State, v.Cause)
	}
	if largest < 64<<10 || largest > 32<<20 {
		t.Errorf("the largest image that was tried has %d bytes", largest)
	}
}
