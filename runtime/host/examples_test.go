package host_test

import (
	"errors"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/weftserve/weft/runtime/catalog"
	"github.com/weftserve/weft/runtime/modelrepo"
	"github.com/weftserve/weft/runtime/tensor"
)

// meddling is a model x [?, 3] → y [?, 3] = x whose rows get the sum of all rows added when meet says so.
func meddling(meet func(rows [][]float32) bool) *fake {
	return overRows(3, func(rows [][]float32) error {
		if len(rows) > 1 && meet(rows) {
			total := float32(1)
			for _, r := range rows {
				if !math.IsNaN(float64(r[0])) {
					total += r[0]
				}
			}
			for _, r := range rows {
				r[0] += total
			}
		}
		return nil
	})
}

// some reports whether any number of any row is so.
func some(is func(v float32) bool) func([][]float32) bool {
	return func(rows [][]float32) bool {
		return slices.ContainsFunc(rows, func(r []float32) bool { return slices.ContainsFunc(r, is) })
	}
}

// every reports whether the first number of every row is so.
func every(is func(v float32) bool) func([][]float32) bool {
	return func(rows [][]float32) bool {
		return !slices.ContainsFunc(rows, func(r []float32) bool { return !is(r[0]) })
	}
}

// TestExamplesOfEveryKind: rows that meet for some numbers, or in some sizes, are not batched.
func TestExamplesOfEveryKind(t *testing.T) {
	for name, meet := range map[string]func([][]float32) bool{
		"above 50":     some(func(v float32) bool { return v > 50 }),
		"all above 50": every(func(v float32) bool { return v > 50 || v < -50 }),
		"below -500":   some(func(v float32) bool { return v < -500 }),
		"above 1e9":    some(func(v float32) bool { return v > 1e9 }),
		"all negative": every(func(v float32) bool { return v < 0 }),
		"all zero":     every(func(v float32) bool { return v == 0 }),
		"one NaN":      some(func(v float32) bool { return v != v }),
		"NaN in the second": func(rows [][]float32) bool {
			return slices.ContainsFunc(rows, func(r []float32) bool { return r[1] != r[1] && r[0] == r[0] })
		},
		"one infinity":            some(func(v float32) bool { return v > math.MaxFloat32 }),
		"one negative infinity":   some(func(v float32) bool { return v < -math.MaxFloat32 }),
		"three rows":              func(rows [][]float32) bool { return len(rows) == 3 },
		"eleven rows":             func(rows [][]float32) bool { return len(rows) == 11 },
		"an odd number of rows":   func(rows [][]float32) bool { return len(rows)%2 == 1 },
		"the last of 64 is large": func(rows [][]float32) bool { return len(rows) == 64 && rows[63][1] > 100 },
		"large and negative mates": func(rows [][]float32) bool {
			return some(func(v float32) bool { return v > 100 })(rows) && rows[0][2] < 0
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, 1)
			w.add("m", 1, meddling(meet), nil)
			v := w.load("m")
			if b := v.Batching; v.State != catalog.Ready || b.Batched || b.Proof != catalog.ProofNone {
				t.Errorf("state %v %s, batched %v by %q: %s", v.State, v.Cause, b.Batched, b.Proof, b.Reason)
			}
		})
	}
}

// lookup is a model id [?] → y [?] = id as a number, that refuses ids of table and above, if table is positive. Its
// rows get their sum added when meet says so.
func lookup(table int64, meet func(ids []int64) bool) *fake {
	return &fake{
		Declared: tensor.Signature{
			Inputs:  []tensor.Spec{spec("id", tensor.Int64, tensor.Unknown)},
			Outputs: []tensor.Spec{spec("y", tensor.Float32, tensor.Unknown, 1)},
		},
		Answer: func(b *tensor.Batch) error {
			ids := integersOf(b.Inputs[0])
			out, total := make([]float32, len(ids)), float32(1)
			for i, id := range ids {
				if table > 0 && (id >= table || id < 0) {
					return errors.New("an id is beyond the table")
				}
				out[i] = float32(id)
				total += float32(id)
			}
			if len(ids) > 1 && meet(ids) {
				for i := range out {
					out[i] += total
				}
			}
			y := floats(tensor.Shape{int64(len(ids)), 1}, out...)
			copy(b.Output(0, y.DType, y.Shape, len(y.Data)), y.Data)
			return nil
		},
	}
}

func TestExamplesOfIntegers(t *testing.T) {
	has := func(is func(id int64) bool) func([]int64) bool {
		return func(ids []int64) bool { return slices.ContainsFunc(ids, is) }
	}
	for name, test := range map[string]struct {
		model   *fake
		batched bool
	}{
		"above 100": {lookup(0, has(func(id int64) bool { return id > 100 })), false},
		"above 1e6": {lookup(0, has(func(id int64) bool { return id > 1e6 })), false},
		"negative":  {lookup(0, has(func(id int64) bool { return id < 0 })), false},
		"all zero": {lookup(0,
			func(ids []int64) bool { return slices.Max(ids) == 0 && slices.Min(ids) == 0 }), false},
		"above 100 of 2000":   {lookup(2000, has(func(id int64) bool { return id > 100 })), false},
		"a table of 50":       {lookup(50, func([]int64) bool { return false }), true},
		"a table of 2000":     {lookup(2000, func([]int64) bool { return false }), true},
		"never, and no table": {lookup(0, func([]int64) bool { return false }), true},
	} {
		w := newWorld(t, 1)
		w.add("m", 1, test.model, nil)
		if b := w.load("m").Batching; b.Batched != test.batched {
			t.Errorf("%s: batched %v: %s", name, b.Batched, b.Reason)
		}
	}
}

// scalars is a model x [?, 2], with the inputs without rows that are given → y [?, 2] = x, whose rows get their sum
// added when meet says so.
func scalars(inputs []tensor.Spec, meet func(b *tensor.Batch) bool) *fake {
	f := &fake{Declared: tensor.Signature{
		Inputs:  append([]tensor.Spec{spec("x", tensor.Float32, tensor.Unknown, 2)}, inputs...),
		Outputs: []tensor.Spec{spec("y", tensor.Float32, tensor.Unknown, 2)},
	}}
	f.Answer = func(b *tensor.Batch) error {
		x := values(b.Inputs[0])
		if len(x) > 2 && meet(b) {
			total := float32(0)
			for _, v := range x {
				total += v
			}
			for i := range x {
				x[i] += total
			}
		}
		y := floats(b.Inputs[0].Shape, x...)
		copy(b.Output(0, y.DType, y.Shape, len(y.Data)), y.Data)
		return nil
	}
	return f
}

// TestExamplesOfParameters: rows that meet for some value of an input without rows are not batched.
func TestExamplesOfParameters(t *testing.T) {
	bools := func(names ...string) (specs []tensor.Spec) {
		for _, name := range names {
			specs = append(specs, spec(name, tensor.Bool))
		}
		return specs
	}
	integer, number := []tensor.Spec{spec("k", tensor.Int64)}, []tensor.Spec{spec("rate", tensor.Float32)}
	k := func(b *tensor.Batch) int64 { return integersOf(b.Inputs[1])[0] }
	rate := func(b *tensor.Batch) float32 { return values(b.Inputs[1])[0] }
	for name, test := range map[string]struct {
		model  *fake
		reason string
	}{
		"train": {
			scalars(bools("train"), func(b *tensor.Batch) bool { return b.Inputs[1].Data[0] == 1 }),
			`with input "train" = true, output "y"`,
		},
		"not eval": {
			scalars(bools("eval"), func(b *tensor.Batch) bool { return b.Inputs[1].Data[0] == 0 }),
			"",
		},
		"two bools at once": {scalars(bools("a", "b"),
			func(b *tensor.Batch) bool { return b.Inputs[1].Data[0] == 1 && b.Inputs[2].Data[0] == 1 }), ""},
		"mode 0":           {scalars(integer, func(b *tensor.Batch) bool { return k(b) == 0 }), `"k" = 0`},
		"mode 1":           {scalars(integer, func(b *tensor.Batch) bool { return k(b) == 1 }), `"k" = 1`},
		"a negative mode":  {scalars(integer, func(b *tensor.Batch) bool { return k(b) < 0 }), `"k" = -1`},
		"a mode above 100": {scalars(integer, func(b *tensor.Batch) bool { return k(b) > 100 }), `"k" = 101`},
		"a mode above 1e6": {scalars(integer, func(b *tensor.Batch) bool { return k(b) > 1e6 }), `"k" = 1000003`},
		"a rate of 1":      {scalars(number, func(b *tensor.Batch) bool { return rate(b) == 1 }), `"rate" = 1`},
		"a rate of 0":      {scalars(number, func(b *tensor.Batch) bool { return rate(b) == 0 }), `"rate" = 0`},
		"a negative rate":  {scalars(number, func(b *tensor.Batch) bool { return rate(b) < -0.9 }), ""},
		"a rate above 50":  {scalars(number, func(b *tensor.Batch) bool { return rate(b) > 50 }), `"rate" = 60`},
		"a rate that is NaN": {
			scalars(number, func(b *tensor.Batch) bool { return rate(b) != rate(b) }),
			`"rate" = NaN`,
		},
	} {
		w := newWorld(t, 1)
		w.add("m", 1, test.model, nil)
		if b := w.load("m").Batching; b.Batched || !strings.Contains(b.Reason, test.reason) {
			t.Errorf("%s: batched %v: %s\nwant ...%s...", name, b.Batched, b.Reason, test.reason)
		}
	}
}

// TestLargeParametersAreNotTried where a smaller one makes the model do much more: a count of a million may mean as
// many steps.
func TestLargeParametersAreNotTried(t *testing.T) {
	largest := int64(0)
	f := scalars([]tensor.Spec{spec("steps", tensor.Int64)}, func(*tensor.Batch) bool { return false })
	f.Declared.Outputs = append(f.Declared.Outputs, spec("path", tensor.Float32, tensor.Unknown, tensor.Unknown))
	run := f.Answer
	f.Answer = func(b *tensor.Batch) error {
		steps := max(0, integersOf(b.Inputs[1])[0])
		largest = max(largest, steps)
		rows := b.Inputs[0].Shape[0]
		clear(b.Output(1, tensor.Float32, tensor.Shape{rows, steps}, int(4*rows*steps)))
		return run(b)
	}
	w := newWorld(t, 1)
	w.add("m", 1, f, nil)
	if b := w.load("m").Batching; !b.Batched {
		t.Errorf("not batched: %s", b.Reason)
	}
	if largest < 7 || largest > 101 {
		t.Errorf("the largest number of steps tried is %d", largest)
	}
}

// signOf is 1 of numbers above 0, and -1 of others.
func signOf(v float32) float32 {
	if v > 0 {
		return 1
	}
	return -1
}

// TestRoundingIsNoMeeting: rows that are answered a little otherwise in larger batches are batched if nothing else than
// the size changes their answers.
func TestRoundingIsNoMeeting(t *testing.T) {
	const accepted = "is rounding of kernels for other sizes"
	for name, test := range map[string]struct {
		change  func(rows [][]float32, i int) float32 // of the first number of row i, in proportion
		batched bool
		reason  string
	}{
		"by size":           {func(rows [][]float32, _ int) float32 { return 1e-5 * float32(len(rows)) }, true, accepted},
		"by size and place": {func(rows [][]float32, i int) float32 { return 9e-6 * float32(len(rows)-i) }, true, accepted},
		"by size, too much": {func(rows [][]float32, _ int) float32 { return 2e-5 * float32(len(rows)) }, false, "differs by"},
		"by a mate": {func(rows [][]float32, i int) float32 {
			return 1e-4 * signOf(rows[(i+1)%len(rows)][1])
		}, false, "it changes with the other rows of the batch"},
		"by a mate above 100, and by size": {func(rows [][]float32, _ int) float32 {
			most := float32(0)
			for _, r := range rows {
				if r[1] > 100 && len(rows) > 1 {
					most = 2e-4
				}
			}
			return most + 5e-6*float32(len(rows))
		}, false, "it changes with the other rows of the batch"},
	} {
		w := newWorld(t, 1)
		w.add("m", 1, overRows(3, func(rows [][]float32) error {
			by := make([]float32, len(rows))
			for i := range rows {
				by[i] = test.change(rows, i)
			}
			for i, r := range rows {
				r[0] *= 1 + by[i]
			}
			return nil
		}), nil)
		if b := w.load("m").Batching; b.Batched != test.batched || !strings.Contains(b.Reason, test.reason) {
			t.Errorf("%s: batched %v: %s", name, b.Batched, b.Reason)
		}
	}
}

// TestToleranceIsNamed: where so little denies batching that it may not matter, the reason names the setting with a
// value that would accept it.
func TestToleranceIsNamed(t *testing.T) {
	rounds := func() *fake {
		return overRows(3, func(rows [][]float32) error {
			last := rows[len(rows)-1][1]
			for _, r := range rows {
				r[0] *= 1 + 2.5e-5*signOf(last)
			}
			return nil
		})
	}
	w := newWorld(t, 1)
	w.add("m", 1, rounds(), nil)
	const advice = "batching.tolerance: 0.0001 would accept it, and if you know that rows do not influence each " +
		"other, batching.mode: on"
	if b := w.load("m").Batching; b.Batched || b.Proof != catalog.ProofNone || !strings.Contains(b.Reason, advice) {
		t.Errorf("batched %v by %q: %s", b.Batched, b.Proof, b.Reason)
	}
	w.add("tolerant", 1, rounds(), func(m *modelrepo.Manifest) { m.Batching.Tolerance = 1e-4 })
	w.load("m")
	if b := w.version("tolerant", 1).Batching; !b.Batched || b.Proof != catalog.ProofExamples ||
		b.MaxDifference < 4e-5 {
		t.Errorf("batched %v by %q: %s", b.Batched, b.Proof, b.Reason)
	}
	w.add("far off", 1, overRows(3, func(rows [][]float32) error {
		rows[0][0] += rows[len(rows)-1][1]
		return nil
	}), nil)
	w.load("m")
	if b := w.version("far off", 1).Batching; b.Batched || strings.Contains(b.Reason, "batching.tolerance") {
		t.Errorf("batched %v: %s", b.Batched, b.Reason)
	}
}

// TestExamplesOfLengths: rows that meet only in long sequences are not batched.
func TestExamplesOfLengths(t *testing.T) {
	w := newWorld(t, 1)
	w.add("m", 1, sequence(func(rows [][]float32) ([][]float32, error) {
		last := rows[len(rows)-1]
		for _, r := range rows {
			if len(r) > 10 {
				r[0] += last[1]
			}
		}
		return rows, nil
	}), nil)
	if b := w.load("m").Batching; b.Batched || !strings.Contains(b.Reason, "with open dimensions of 16, output") {
		t.Errorf("batched %v: %s", b.Batched, b.Reason)
	}
}
