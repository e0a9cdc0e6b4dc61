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
	"github.com/weftserve/weft/runtime/catalog"
	"github.com/weftserve/weft/runtime/engine"
	"github.com/weftserve/weft/runtime/modelrepo"
	"github.com/weftserve/weft/runtime/tensor"
)

func TestProof(t *testing.T) {
	allowed := func(sizes ...int) func(*modelrepo.Manifest) {
		return func(m *modelrepo.Manifest) { m.Batching.AllowedBatchSizes = sizes }
	}
	mean := func(rows [][]float32) (sum float32) {
		for _, r := range rows {
			sum += r[0]
		}
		return sum / float32(len(rows))
	}
	for _, test := range []struct {
		name    string
		model   *fake
		change  func(*modelrepo.Manifest)
		batched bool
		most    int
		reason  string
	}{
		{
			name: "independent rows", model: perRow(3, double), batched: true, most: 64,
			reason: "in batches of 2, 4, 8, 16, 32, 64 ",
		},
		{
			name: "no power of two", model: perRow(3, double),
			change:  func(m *modelrepo.Manifest) { m.Batching.MaxBatchSize = 20 },
			batched: true, most: 20, reason: "in batches of 2, 4, 8, 16, 20 ",
		},
		{
			name: "allowed sizes", model: perRow(3, double), change: allowed(1, 4, 12), batched: true, most: 12,
			reason: "in batches of 1, 4, 12 ",
		},
		{name: "normalises over the batch", model: overRows(3, func(rows [][]float32) error {
			m := mean(rows)
			for _, r := range rows {
				r[0] -= m
			}
			return nil
		}), reason: `output "y" of a row differs by`},
		{name: "fails at batch 8", model: overRows(3, func(rows [][]float32) error {
			if len(rows) >= 8 {
				return errors.New("the kernel is for at most 7 rows")
			}
			return nil
		}), reason: "a batch of 8 rows fails: the kernel is for at most 7 rows"},
		{name: "out of memory at 32", model: overRows(3, func(rows [][]float32) error {
			if len(rows) >= 32 {
				return fmt.Errorf("allocate: %w", errMemory)
			}
			return nil
		}), batched: true, most: 16, reason: "in batches of 2, 4, 8, 16 "},
		{name: "a row's place matters", model: overRows(3, func(rows [][]float32) error {
			for i, r := range rows {
				r[0] += float32(i)
			}
			return nil
		}), reason: `output "y" of a row differs by`},
		{name: "only the last of 16 rows is harmed", model: overRows(3, func(rows [][]float32) error {
			if len(rows) == 16 {
				rows[15][2] = 0
			}
			return nil
		}), reason: "among 16 rows"},
		{name: "equal neighbours are merged, as in padding", model: overRows(3, func(rows [][]float32) error {
			for i := len(rows) - 1; i > 0; i-- {
				if len(rows) <= 8 && slices.Equal(rows[i], rows[i-1]) {
					rows[i][0] = 7
				}
			}
			return nil
		}), change: allowed(4, 8), reason: `output "y" of a row differs by`},
		{name: "within tolerance", model: overRows(3, func(rows [][]float32) error {
			for _, r := range rows {
				r[0] *= 1 + 1e-7*float32(len(rows))
			}
			return nil
		}), batched: true, most: 64, reason: "proven harmless by examples"},
		{name: "not a number where it was one", model: overRows(3, func(rows [][]float32) error {
			if len(rows) == 4 {
				rows[1][1] /= 0
				rows[1][1] -= rows[1][1]
			}
			return nil
		}), reason: `output "y" of a row has another value among 4 rows`},
		{name: "answers hold no number", model: overRows(3, func(rows [][]float32) error {
			for _, r := range rows {
				for i := range r {
					r[i] /= 0
				}
			}
			return nil
		}), reason: `output "y" has no finite number`},
		{name: "a small quantity beside a large one", model: overRows(3, func(rows [][]float32) error {
			m := mean(rows)
			for _, r := range rows {
				r[1] -= m
				r[2] *= 1e6
			}
			return nil
		}), reason: `output "y" of a row differs by`},
		{name: "a threshold that ordinary numbers do not reach", model: overRows(3, func(rows [][]float32) error {
			most := float32(0)
			for _, r := range rows {
				most = max(most, r[0])
			}
			for _, r := range rows {
				r[0] = max(0, most-100)
			}
			return nil
		}), reason: `output "y" of a row differs by`},
		{name: "answers everybody alike", model: perRow(3, func(row []float32) error {
			clear(row)
			return nil
		}), reason: "gives every made-up input the same answer"},
		{name: "takes zeros only", model: perRow(3, func(row []float32) error {
			if row[0] != 0 {
				return errors.New("not zero")
			}
			return nil
		}), reason: "no made-up input but a constant one"},
		{
			name: "takes nothing made up", model: perRow(3, func([]float32) error { return errors.New("not for me") }),
			reason: "fails on made-up inputs even for one row: not for me",
		},
		{
			name: "off", model: perRow(3, double),
			change: func(m *modelrepo.Manifest) { m.Batching.Mode = modelrepo.BatchOff },
			reason: "batching.mode is off",
		},
		{
			name: "one row at most", model: perRow(3, double),
			change: func(m *modelrepo.Manifest) { m.Batching.MaxBatchSize = 1 },
			reason: "one row is the most",
		},
		{
			name: "on, though rows meddle", model: overRows(3, func(rows [][]float32) error {
				rows[0][0] += mean(rows)
				return nil
			}), change: func(m *modelrepo.Manifest) { m.Batching.Mode = modelrepo.BatchOn }, batched: true, most: 64,
			reason: "mode is on",
		},
		{name: "a fixed batch", model: fixed(2, 3), reason: "no input has an open batch dimension"},
		{name: "one row exceeds the budget", model: perRow(3, double), change: func(m *modelrepo.Manifest) {
			m.Batching.MaxBatchCost = config.Duration(time.Nanosecond)
		}, reason: "more than batching.max_batch_cost"},
	} {
		t.Run(test.name, func(t *testing.T) {
			w := newWorld(t, 1)
			w.add("m", 1, test.model, test.change)
			v := w.load("m")
			if v.State != catalog.Ready {
				t.Fatalf("state %v, cause %q", v.State, v.Cause)
			}
			if v.Batching.Batched != test.batched || !strings.Contains(v.Batching.Reason, test.reason) {
				t.Errorf("batched %v: %s\nwant %v: ...%s...", v.Batching.Batched, v.Batching.Reason, test.batched,
					test.reason)
			}
			if want := max(test.most, 1); v.Batching.MaxBatchSize != want {
				t.Errorf("at most %d rows in an execution, want %d", v.Batching.MaxBatchSize, want)
			}
			if test.name == "within tolerance" != (v.Batching.MaxDifference > 0) || v.Batching.MaxDifference > 1e-5 {
				t.Errorf("the proof saw a difference of %g", v.Batching.MaxDifference)
			}
		})
	}
}

// fixed is a model of exactly n rows whose output depends on all of them.
func fixed(n, width int64) *fake {
	f := overRows(width, func(rows [][]float32) error {
		rows[0][0] += rows[len(rows)-1][0]
		return nil
	})
	f.Declared.Inputs[0].Shape[0], f.Declared.Outputs[0].Shape[0] = n, n
	return f
}

func TestPaddingIsTriedWithMostRowsMadeUp(t *testing.T) {
	repeated := map[int]int{} // by size: the most equal rows at the end of a run
	f := overRows(1, func(rows [][]float32) error {
		n := 1
		for n < len(rows) && rows[len(rows)-1-n][0] == rows[len(rows)-1][0] {
			n++
		}
		if len(rows) == 8 && n == 8 {
			return nil // rows of zeros
		}
		repeated[len(rows)] = max(repeated[len(rows)], n)
		return nil
	})
	w := newWorld(t, 1)
	w.add("m", 1, f, func(m *modelrepo.Manifest) { m.Batching.AllowedBatchSizes = []int{3, 8} })
	w.load("m")
	if len(repeated) != 2 || repeated[3] != 3 || repeated[8] < 5 {
		t.Errorf("equal rows at the end, by size of the run: %v, want 3 of 3 and at least 5 of 8, and no other sizes",
			repeated)
	}
}

func TestRowsChangePlacesAndMates(t *testing.T) {
	seen := map[int]map[[2]float32]bool{} // by size of the run: the first two rows
	f := overRows(1, func(rows [][]float32) error {
		if n := len(rows); n > 1 {
			if seen[n] == nil {
				seen[n] = map[[2]float32]bool{}
			}
			seen[n][[2]float32{rows[0][0], rows[1][0]}] = true
		}
		return nil
	})
	w := newWorld(t, 1)
	w.add("m", 1, f, nil)
	w.load("m")
	for _, size := range []int{2, 4, 8, 16, 32, 64} {
		if len(seen[size]) < 2 {
			t.Errorf("every batch of %d rows had the same rows in front", size)
		}
	}
}

// TestIntegersOutOfRange has a model that looks integers up in a table of two: most random integers fail.
func TestIntegersOutOfRange(t *testing.T) {
	f := &fake{
		Declared: tensor.Signature{
			Inputs:  []tensor.Spec{spec("id", tensor.Int64, tensor.Unknown)},
			Outputs: []tensor.Spec{spec("y", tensor.Float32, tensor.Unknown, 1)},
		},
		Answer: func(b *tensor.Batch) error {
			n := len(b.Inputs[0].Data) / 8
			out := make([]float32, n)
			for i := range out {
				id := b.Inputs[0].Data[8*i]
				if id > 1 {
					return fmt.Errorf("index %d is beyond the table", id)
				}
				out[i] = []float32{0.5, -3}[id]
			}
			y := floats(tensor.Shape{int64(n), 1}, out...)
			copy(b.Output(0, y.DType, y.Shape, len(y.Data)), y.Data)
			return nil
		},
	}
	w := newWorld(t, 1)
	w.add("m", 1, f, nil)
	if v := w.load("m"); !v.Batching.Batched {
		t.Errorf("not batched: %s", v.Batching.Reason)
	}
}

// TestOpenDimensionsOfOneNameAgree has a model whose two inputs share the open dimension "tokens" and that wants at
// least 16.
func TestOpenDimensionsOfOneNameAgree(t *testing.T) {
	ids := spec("ids", tensor.Int64, tensor.Unknown, tensor.Unknown)
	ids.DimNames = []string{"batch", "tokens"}
	mask := ids
	mask.Name = "mask"
	y := spec("y", tensor.Int64, tensor.Unknown, tensor.Unknown)
	y.DimNames = ids.DimNames
	f := &fake{
		Declared: tensor.Signature{Inputs: []tensor.Spec{ids, mask}, Outputs: []tensor.Spec{y}},
		Answer: func(b *tensor.Batch) error {
			if !slices.Equal(b.Inputs[0].Shape, b.Inputs[1].Shape) || b.Inputs[0].Shape[1] < 16 {
				return fmt.Errorf("shapes %v and %v", b.Inputs[0].Shape, b.Inputs[1].Shape)
			}
			copy(b.Output(0, tensor.Int64, b.Inputs[0].Shape, len(b.Inputs[0].Data)), b.Inputs[0].Data)
			return nil
		},
	}
	w := newWorld(t, 1)
	w.add("m", 1, f, nil)
	if v := w.load("m"); !v.Batching.Batched {
		t.Errorf("not batched: %s", v.Batching.Reason)
	}
}

// recurrent is x [?, 2], state [3, ?, 2], rate [] → y [?, 2] = x·rate + state[0], next [?, ?, ?] = state + 1 with its
// rows in dimension 1, like a voice detector's recurrent network.
func recurrent() *fake {
	return &fake{
		Declared: tensor.Signature{
			Inputs: []tensor.Spec{
				spec("x", tensor.Float32, tensor.Unknown, 2),
				spec("state", tensor.Float32, 3, tensor.Unknown, 2),
				spec("rate", tensor.Float32),
			},
			Outputs: []tensor.Spec{
				spec("y", tensor.Float32, tensor.Unknown, 2),
				spec("next", tensor.Float32, tensor.Unknown, tensor.Unknown, tensor.Unknown),
			},
		},
		Answer: func(b *tensor.Batch) error {
			x, state, rate := values(b.Inputs[0]), values(b.Inputs[1]), values(b.Inputs[2])[0]
			if b.Inputs[0].Shape[0] != b.Inputs[1].Shape[1] {
				return fmt.Errorf("shapes %v and %v", b.Inputs[0].Shape, b.Inputs[1].Shape)
			}
			for i := range x {
				x[i] = x[i]*rate + state[i]
			}
			for i := range state {
				state[i]++
			}
			y, next := floats(b.Inputs[0].Shape, x...), floats(b.Inputs[1].Shape, state...)
			copy(b.Output(0, y.DType, y.Shape, len(y.Data)), y.Data)
			copy(b.Output(1, next.DType, next.Shape, len(next.Data)), next.Data)
			return nil
		},
	}
}

func TestStateWithRowsInTheMiddle(t *testing.T) {
	w := newWorld(t, 1)
	w.add("m", 1, recurrent(), nil)
	v := w.load("m")
	if !v.Batching.Batched {
		t.Fatalf("not batched: %s", v.Batching.Reason)
	}
	var dims []int
	for _, s := range slices.Concat(v.Signature.Inputs, v.Signature.Outputs) {
		dims = append(dims, s.BatchDim)
	}
	if diff := cmp.Diff([]int{0, 1, tensor.NoBatch, 0, 1}, dims); diff != "" {
		t.Errorf("batch dimensions of x, state, rate, y, next (-want +got):\n%s", diff)
	}
}

// TestUnrelatedFirstDimensions has a graph network: nodes [?, 1] and edges [?, 2] are not equally many. It must be
// served with any sizes although the first guess takes both dimensions for the batch.
func TestUnrelatedFirstDimensions(t *testing.T) {
	f := &fake{
		Declared: tensor.Signature{
			Inputs: []tensor.Spec{
				spec("nodes", tensor.Float32, tensor.Unknown, 1),
				spec("edges", tensor.Int64, tensor.Unknown, 2),
			},
			Outputs: []tensor.Spec{spec("sum", tensor.Float32, 1)},
		},
		Answer: func(b *tensor.Batch) error {
			sum := float32(b.Inputs[1].Shape[0])
			for _, v := range values(b.Inputs[0]) {
				sum += v
			}
			y := floats(tensor.Shape{1}, sum)
			copy(b.Output(0, y.DType, y.Shape, len(y.Data)), y.Data)
			return nil
		},
	}
	w := newWorld(t, 1)
	w.add("m", 1, f, nil)
	v := w.load("m")
	if v.Batching.Batched {
		t.Fatalf("batched: %s", v.Batching.Reason)
	}
	inputs := []tensor.Tensor{
		floats(tensor.Shape{3, 1}, 1, 2, 3),
		{DType: tensor.Int64, Shape: tensor.Shape{2, 2}, Data: make([]byte, 32)},
	}
	rows, err := v.Signature.Rows(inputs)
	if err != nil {
		t.Fatal(err)
	}
	call := &catalog.Call{Version: v, Rows: rows, Inputs: inputs}
	if err := w.Predict(t.Context(), call); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]float32{8}, values(call.Results[0])); diff != "" {
		t.Errorf("sum (-want +got):\n%s", diff)
	}
}

// TestOutputWithoutRows: an output that is the same for all callers goes to everybody; one that depends on the rows
// forbids batches.
func TestOutputWithoutRows(t *testing.T) {
	model := func(constant bool) *fake {
		f := perRow(2, double)
		f.Declared.Outputs = append(f.Declared.Outputs, spec("classes", tensor.Float32, 2))
		run := f.Answer
		f.Answer = func(b *tensor.Batch) error {
			c := floats(tensor.Shape{2}, 5, 6)
			if !constant {
				c = floats(tensor.Shape{2}, values(b.Inputs[0])[:2]...)
			}
			copy(b.Output(1, c.DType, c.Shape, len(c.Data)), c.Data)
			return run(b)
		}
		return f
	}
	w := newWorld(t, 1)
	w.add("constant", 1, model(true), nil)
	w.add("varying", 1, model(false), nil)
	w.load("constant")
	if v := w.version("varying", 1); v.Batching.Batched || !strings.Contains(v.Batching.Reason, `output "classes"`) {
		t.Errorf("varying: batched %v: %s", v.Batching.Batched, v.Batching.Reason)
	}
	v := w.version("constant", 1)
	if !v.Batching.Batched {
		t.Fatalf("constant: %s", v.Batching.Reason)
	}
	call := ask(v, 100, make([]float32, 200)...)
	if err := w.Predict(t.Context(), call); err != nil {
		t.Fatal(err)
	}
	if call.Outcome.Executions < 2 {
		t.Errorf("100 rows took %d executions", call.Outcome.Executions)
	}
	if diff := cmp.Diff([]float32{5, 6}, values(call.Results[1])); diff != "" {
		t.Errorf("classes (-want +got):\n%s", diff)
	}
}

var _ engine.Session = (*fake)(nil)
