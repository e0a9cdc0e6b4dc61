package host_test

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"

	"github.com/weftserve/weft/runtime/catalog"
	"github.com/weftserve/weft/runtime/modelrepo"
	"github.com/weftserve/weft/runtime/tensor"
)

// filtering is a model x [?, 1] → y [?, 1] that gives twice the rows but those of -200 and -300, which no example is.
func filtering() *fake {
	return &fake{
		Declared: tensor.Signature{
			Inputs:  []tensor.Spec{spec("x", tensor.Float32, tensor.Unknown, 1)},
			Outputs: []tensor.Spec{spec("y", tensor.Float32, tensor.Unknown, 1)},
		},
		Answer: func(b *tensor.Batch) error {
			var kept []float32
			for _, x := range values(b.Inputs[0]) {
				if x != x {
					return errNaN
				}
				if x != -200 && x != -300 {
					kept = append(kept, 2*x)
				}
			}
			y := floats(tensor.Shape{int64(len(kept)), 1}, kept...)
			copy(b.Output(0, y.DType, y.Shape, len(y.Data)), y.Data)
			return nil
		},
	}
}

// filtered is the answer of filtering to each call alone, "alone" where that is an error.
func filtered(calls []*catalog.Call, errs []error) (all []any) {
	for i, err := range errs {
		_, is := errors.AsType[*catalog.ModelError](err)
		switch {
		case err == nil:
			all = append(all, values(calls[i].Results[0]))
		case is:
			all = append(all, "alone")
		default:
			all = append(all, err)
		}
	}
	return all
}

// TestABatchWhoseOutputsDoNotHaveItsRows: each of its requests is run by itself and gets the result of that, and no
// further batch is formed.
func TestABatchWhoseOutputsDoNotHaveItsRows(t *testing.T) {
	nan := float32(0)
	nan /= nan
	for _, test := range []struct {
		name   string
		inputs [][]float32
		padded int
		change func(*modelrepo.Manifest)
		want   []any
		runs   []int
		joined bool // batches are formed as before
	}{
		{
			"one is filtered",
			[][]float32{{1}, {-200}, {3}, {4, -300, 6}},
			0, patient,
			[]any{[]float32{2}, []float32{}, []float32{6}, []float32{8, 12}},
			[]int{6, 1, 1, 1, 3},
			false,
		},
		{"with padding", [][]float32{{-200}}, 4, patient, []any{[]float32{}}, []int{4, 1}, false},
		{
			"one fails, which hides that",
			[][]float32{{1}, {2}, {nan}, {-200}},
			0, patient,
			[]any{[]float32{2}, []float32{4}, "alone", []float32{}},
			[]int{4, 2, 1, 1},
			true,
		},
		{
			"one fails beside one that is filtered",
			[][]float32{{1}, {-200}, {nan}, {4}},
			0, patient,
			[]any{[]float32{2}, []float32{}, "alone", []float32{8}},
			[]int{4, 2, 1, 1, 1, 1},
			false,
		},
		{"no time is left", [][]float32{{1}, {-200}, {3}}, 0, func(m *modelrepo.Manifest) {
			m.Batching.Mode, m.Batching.MaxBatchCost = modelrepo.BatchOn, 1
		}, []any{[]float32{2}, []float32{}, []float32{6}}, []int{3, 1, 1, 1}, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			b := newBench(t, filtering(), test.change)
			var calls []*catalog.Call
			for _, in := range test.inputs {
				calls = append(calls, ask(nil, len(in), in...))
			}
			errs, runs := b.together(test.padded, calls)
			got := filtered(calls, errs)
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("answers (-want +got):\n%s\n%v", diff, errs)
			}
			slices.Sort(runs[1+b.sched.report.Reruns:]) // by themselves, in any order
			if diff := cmp.Diff(test.runs, runs); diff != "" {
				t.Errorf("rows of each run (-want +got):\n%s", diff)
			}
			if !b.sched.report.Unusable {
				t.Error("the batch would teach the cost model")
			}
			if b.sched.settings.Batched != test.joined {
				t.Errorf("the scheduler forms batches: %v", !test.joined)
			}
			if n := len(b.logs.Event(takenOut)); (n == 0) != test.joined {
				t.Errorf("logged %d times", n)
			}
		})
	}
}

// TestHalvesWhoseOutputsDoNotHaveTheirRows: memory did not suffice for the whole batch.
func TestHalvesWhoseOutputsDoNotHaveTheirRows(t *testing.T) {
	f := filtering()
	b := newBench(t, f, patient)
	run := f.Answer
	f.Answer = func(batch *tensor.Batch) error {
		if batch.Inputs[0].Shape[0] > 2 {
			return errMemory
		}
		return run(batch)
	}
	calls := []*catalog.Call{ask(nil, 1, 1), ask(nil, 1, 2), ask(nil, 1, -200), ask(nil, 1, 4)}
	errs, _ := b.together(0, calls)
	if diff := cmp.Diff([]any{[]float32{2}, []float32{4}, []float32{}, []float32{8}},
		filtered(calls, errs)); diff != "" {
		t.Errorf("answers (-want +got):\n%s", diff)
	}
}

// TestASplitRequestWhoseOutputsDoNotHaveItsRows is run as a whole, once, whichever of its parts shows it; so is each
// other request of the batch.
func TestASplitRequestWhoseOutputsDoNotHaveItsRows(t *testing.T) {
	for filters := range 10 {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t, 1)
			f := filtering()
			w.add("m", 1, f, func(m *modelrepo.Manifest) {
				patient(m)
				m.Batching.MaxBatchSize = 4
			})
			v := w.load("m")
			f.Forget()
			in := make([]float32, 10)
			var want []float32
			for i := range in {
				if in[i] = float32(i); i == filters {
					in[i] = -200
				} else {
					want = append(want, 2*in[i])
				}
			}
			calls := []*catalog.Call{ask(v, 10, in...), ask(v, 1, 1), ask(v, 1, 2)}
			errs := asked(t, w, calls)()
			if diff := cmp.Diff([]any{want, []float32{2}, []float32{4}}, filtered(calls, errs)); diff != "" {
				t.Errorf("row %d is filtered: answers (-want +got):\n%s", filters, diff)
			}
			// After the run of all that of its other rows is not begun any more.
			runs := slices.Concat([]int{4, 4, 2}[:filters/4+1], []int{10, 1, 1})
			if diff := cmp.Diff(runs, f.Forget()); diff != "" {
				t.Errorf("row %d is filtered: rows of each run (-want +got):\n%s", filters, diff)
			}
			synctest.Wait()
			if b := w.version("m", 1).Batching; b.Batched ||
				!strings.Contains(b.Reason,
					`taken out of batching: in a batch of requests output "y" has the shape [`) {
				t.Errorf("published %+v", b)
			}
		})
	}
}
