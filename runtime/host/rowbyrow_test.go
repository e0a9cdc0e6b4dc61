package host_test

import (
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weftserve/weft/internal/config"
	"github.com/weftserve/weft/runtime/catalog"
	"github.com/weftserve/weft/runtime/modelrepo"
	"github.com/weftserve/weft/runtime/tensor"
)

// TestDearRowsRunOneByOne: where one row takes more than an execution may, a request of several is run row by row, if
// rows do not influence each other, and else as it comes.
func TestDearRowsRunOneByOne(t *testing.T) {
	dear := func(m *modelrepo.Manifest) { m.Batching.MaxBatchCost = config.Duration(100 * time.Microsecond) }
	for name, test := range map[string]struct {
		model  *fake
		change func(*modelrepo.Manifest)
		sizes  []int // of the executions of a request of five rows
		proof  catalog.Proof
		reason string
	}{
		"independent": {
			slowly(perRow(2, double)), nil,
			[]int{1, 1, 1, 1, 1},
			catalog.ProofExamples,
			"so its rows are run one by one; they are proven independent by examples",
		},
		"meddling": {
			slowly(
				overRows(2, func(rows [][]float32) error { rows[0][0] += rows[len(rows)-1][1]; return nil })), nil,
			[]int{5},
			catalog.ProofNone, "not proven independent: output \"y\" of a row differs by",
		},
		"two are the fewest": {
			slowly(perRow(2, double)),
			func(m *modelrepo.Manifest) { m.Batching.MaxBatchSize, m.Batching.AllowedBatchSizes = 4, []int{2, 4} },
			[]int{2, 2, 2},
			catalog.ProofExamples, "run one by one",
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, 1)
			w.add("m", 1, test.model, func(m *modelrepo.Manifest) {
				dear(m)
				if test.change != nil {
					test.change(m)
				}
			})
			v := w.load("m")
			if b := v.Batching; v.State != catalog.Ready || b.Proof != test.proof ||
				!strings.Contains(b.Reason, test.reason) {
				t.Errorf("state %v %s: by %q: %s", v.State, v.Cause, b.Proof, b.Reason)
			}
			test.model.Forget()
			call := ask(v, 5, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10)
			if err := w.Predict(t.Context(), call); err != nil {
				t.Fatal(err)
			}
			if sizes := test.model.Forget(); !slices.Equal(sizes, test.sizes) {
				t.Errorf("executions of %v rows, want %v", sizes, test.sizes)
			}
			want := []float32{2, 4, 6, 8, 10, 12, 14, 16, 18, 20}
			if test.proof == catalog.ProofNone {
				want = []float32{11, 2, 3, 4, 5, 6, 7, 8, 9, 10}
			}
			if got := values(call.Results[0]); !slices.Equal(got, want) {
				t.Errorf("got %v, want %v", got, want)
			}
		})
	}
}

// TestValuesThatRowsAreSplitFor: a request whose value is proven is split where an execution may have fewer rows than
// it: one, where one takes more than an execution may.
func TestValuesThatRowsAreSplitFor(t *testing.T) {
	meet := func(mode int64) bool { return mode == 4242 }
	for name, test := range map[string]struct {
		change func(*modelrepo.Manifest)
		split  []int
	}{
		"one row is too dear": {func(m *modelrepo.Manifest) {
			m.Batching.MaxBatchCost = config.Duration(500 * time.Microsecond)
		}, []int{1, 1, 1, 1, 1}},
		"two rows at most": {func(m *modelrepo.Manifest) { m.Batching.MaxBatchSize = 2 }, []int{2, 2, 1}},
		"dear, and two fewest": {func(m *modelrepo.Manifest) {
			m.Batching.MaxBatchCost, m.Batching.MaxBatchSize,
				m.Batching.AllowedBatchSizes = config.Duration(500*time.Microsecond), 4, []int{2, 4}
		}, []int{2, 2, 2}},
	} {
		synctest.Test(t, func(t *testing.T) {
			f := scalars([]tensor.Spec{spec("mode", tensor.Int64)},
				func(b *tensor.Batch) bool { return meet(integersOf(b.Inputs[1])[0]) })
			run := f.Answer
			f.Answer = func(b *tensor.Batch) error {
				time.Sleep(time.Duration(b.Inputs[0].Shape[0]) * time.Millisecond)
				return run(b)
			}
			w := newWorld(t, 1)
			w.add("m", 1, f, test.change)
			v := w.load("m")
			for _, mode := range []int64{4243, 4242} {
				runs, want := []int(nil), test.split
				if meet(mode) {
					want = []int{5}
				}
				for n := range 3 { // the second begins the proof
					f.Forget()
					call := askMode(v, 5, mode, float32(n))
					if err := w.Predict(t.Context(), call); err != nil {
						t.Fatal(err)
					}
					if got, want := values(call.Results[0]), answerTo(call, meet); !slices.Equal(got, want) {
						t.Errorf("%s: mode %d: got %v, want %v", name, mode, got, want)
					}
					runs = f.Forget()
					time.Sleep(time.Second)
					synctest.Wait()
				}
				if !slices.Equal(runs, want) {
					t.Errorf("%s: mode %d: executions of %v rows, want %v", name, mode, runs, want)
				}
			}
			if b := w.version("m", 1).Batching; !strings.Contains(b.Reason,
				`taken out of batching: with what a request brought for "mode"`) {
				t.Errorf("%s: %s", name, b.Reason)
			}
		})
	}
}
