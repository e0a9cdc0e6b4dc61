package host_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/weftserve/weft/internal/config"
	"github.com/weftserve/weft/runtime/catalog"
	"github.com/weftserve/weft/runtime/modelrepo"
	"github.com/weftserve/weft/runtime/tensor"
	"github.com/weftserve/weft/sharedsched"
)

// sequence is a model x [?, ?] → y [?, ?] of rows of any length, the same for all rows of a run.
func sequence(f func(rows [][]float32) ([][]float32, error)) *fake {
	return &fake{
		Declared: tensor.Signature{
			Inputs:  []tensor.Spec{spec("x", tensor.Float32, tensor.Unknown, tensor.Unknown)},
			Outputs: []tensor.Spec{spec("y", tensor.Float32, tensor.Unknown, tensor.Unknown)},
		},
		Answer: func(b *tensor.Batch) error {
			x, length := values(b.Inputs[0]), int(b.Inputs[0].Shape[1])
			rows := make([][]float32, b.Inputs[0].Shape[0])
			for i := range rows {
				rows[i] = x[i*length:][:length]
			}
			out, err := f(rows)
			if err != nil {
				return err
			}
			y := floats(tensor.Shape{int64(len(out)), int64(len(out[0]))}, slices.Concat(out...)...)
			copy(b.Output(0, y.DType, y.Shape, len(y.Data)), y.Data)
			return nil
		},
	}
}

// eachRow applies f to each row of a sequence model.
func eachRow(f func(row []float32) []float32) *fake {
	return sequence(func(rows [][]float32) ([][]float32, error) {
		for i, row := range rows {
			rows[i] = f(row)
		}
		return rows, nil
	})
}

// busy takes that long.
func busy(d time.Duration) {
	for end := time.Now().Add(d); time.Now().Before(end); {
	}
}

func doubled(row []float32) []float32 {
	_ = double(row)
	return row
}

func sum(row []float32) []float32 {
	total := float32(0)
	for _, v := range row {
		total += v
	}
	return []float32{total}
}

func mean(row []float32) []float32 { return []float32{sum(row)[0] / float32(len(row))} }

// buckets makes x padded with zeros.
func buckets(sizes ...int) func(*modelrepo.Manifest) {
	return func(m *modelrepo.Manifest) {
		m.Batching.VariableDims = map[string]modelrepo.VariableDim{"x": {Axis: 1, Buckets: sizes}}
	}
}

func TestProofOfPadding(t *testing.T) {
	for _, test := range []struct {
		name   string
		model  *fake
		change func(*modelrepo.Manifest)
		padded bool
		reason string
	}{
		{
			name: "each element by itself", model: eachRow(doubled), padded: true,
			reason: "; so is padding to 4, 8 (largest difference 0)",
		},
		{name: "zeros do not matter", model: eachRow(sum), padded: true, reason: "; so is padding to 4, 8 "},
		{
			name: "all elements matter", model: eachRow(mean),
			reason: `because padding is not proven harmless: output "y" of a row differs by`,
		},
		{name: "the last element matters", model: eachRow(func(row []float32) []float32 {
			return row[len(row)-1:]
		}), reason: "of its magnitude padded to 4 (tolerated: 1e-05)"},
		{name: "twice as long and one", model: eachRow(func(row []float32) []float32 {
			return append(slices.Concat(row, row), 1)
		}), reason: `output "y" of a row padded to 4 has type fp32 and shape [1,9] instead of`},
		{name: "only the longer bucket harms", model: eachRow(func(row []float32) []float32 {
			if len(row) == 8 {
				return mean(row)
			}
			return sum(row)
		}), reason: "padded to 8 (tolerated"},
		{name: "only mates of other lengths harm", model: sequence(func(rows [][]float32) ([][]float32, error) {
			ragged := float32(0)
			for _, row := range rows {
				if row[len(row)-1] == -77 {
					ragged++
				}
			}
			for i := range rows {
				rows[i] = sum(slices.DeleteFunc(rows[i], func(v float32) bool { return v == -77 }))
				if len(rows) > 1 && ragged < float32(len(rows)) {
					rows[i][0] += ragged
				}
			}
			return rows, nil
		}), change: func(m *modelrepo.Manifest) {
			m.Batching.VariableDims["x"] = modelrepo.VariableDim{Axis: 1, Buckets: []int{4, 8}, PadValue: "-77"}
		}, reason: "rows padded to 4 (tolerated"},
		{name: "fails on padding", model: sequence(func(rows [][]float32) ([][]float32, error) {
			for _, row := range rows {
				if row[len(row)-1] == 0 {
					return nil, errors.New("a zero at the end")
				}
				clear(row[1:])
			}
			return rows, nil
		}), reason: "a request that ran alone fails padded to 4: a zero at the end"},
		{name: "takes full buckets only", model: sequence(func(rows [][]float32) ([][]float32, error) {
			if len(rows[0])%4 != 0 {
				return nil, errors.New("not a multiple of four")
			}
			for _, row := range rows {
				_ = double(row)
			}
			return rows, nil
		}), reason: `takes no made-up input "x" that is shorter than its bucket (4), which shows nothing`},
		{name: "one row of a bucket takes longer than a batch may", model: eachRow(func(row []float32) []float32 {
			if len(row) == 8 {
				busy(15 * time.Millisecond)
			}
			return sum(row)
		}), change: func(m *modelrepo.Manifest) {
			m.Batching.MaxBatchCost = config.Duration(10 * time.Millisecond)
		}, padded: true, reason: "; so is padding to 4, 8 "},
		{
			name: "a bucket beyond all memory", model: eachRow(sum), change: buckets(4, 1<<30),
			reason: "one row of 1073741824 exceeds the memory that a proof may take",
		},
		{
			name: "on", model: eachRow(mean), change: func(m *modelrepo.Manifest) { m.Batching.Mode = modelrepo.BatchOn },
			padded: true, reason: "without proof, and lengths padded",
		},
		{
			name: "off", model: eachRow(doubled),
			change: func(m *modelrepo.Manifest) { m.Batching.Mode = modelrepo.BatchOff },
			reason: "batching.mode is off",
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			w := newWorld(t, 1)
			w.add("m", 1, test.model, func(m *modelrepo.Manifest) {
				buckets(4, 8)(m)
				if test.change != nil {
					test.change(m)
				}
			})
			v := w.load("m")
			if v.State != catalog.Ready {
				t.Fatalf("state %v, cause %q", v.State, v.Cause)
			}
			if padded := v.Signature.Inputs[0].Variable.Buckets != nil; padded != test.padded ||
				!strings.Contains(v.Batching.Reason, test.reason) {
				t.Errorf("padded %v: %s\nwant %v: ...%s...", padded, v.Batching.Reason, test.padded, test.reason)
			}
			if most := v.Signature.Inputs[0].Variable.Most; most != 8 && most != 1<<30 {
				t.Errorf("lengths up to %d, want the largest bucket whether padded or not", most)
			}
		})
	}
}

func TestBucketsThatDoNotFitTheModel(t *testing.T) {
	atLeast16 := func() *fake {
		return sequence(func(rows [][]float32) ([][]float32, error) {
			if n := len(rows[0]); n < 16 || n > 64 {
				return nil, fmt.Errorf("%d elements", n)
			}
			return rows, nil
		})
	}
	named := func(names ...string) *fake {
		f := eachRow(doubled)
		f.Declared.Inputs[0].DimNames = []string{"batch", "tokens"}
		more := spec("more", tensor.Float32, tensor.Unknown, tensor.Unknown)
		more.DimNames = names
		f.Declared.Inputs = append(f.Declared.Inputs, more)
		return f
	}
	half := func(d tensor.DType) *fake {
		f := eachRow(doubled)
		f.Declared.Inputs[0].DType = d
		return f
	}
	entry := func(name string, v modelrepo.VariableDim) func(*modelrepo.Manifest) {
		return func(m *modelrepo.Manifest) {
			m.Batching.VariableDims = map[string]modelrepo.VariableDim{"x": {Axis: 1, Buckets: []int{4, 8}}, name: v}
		}
	}
	for _, test := range []struct {
		name   string
		model  *fake
		change func(*modelrepo.Manifest)
		cause  string
	}{
		{"all below the model's minimum", atLeast16(), buckets(4, 8), "fails on made-up inputs as long as a bucket " +
			"(4), though it takes such of length 16: 4 elements; remove that bucket"},
		{"one below the model's minimum", atLeast16(), buckets(8, 32), "fails on made-up inputs as long as a bucket " +
			"(8), though it takes such of length 16: 8 elements; remove that bucket"},
		{
			"one above the model's maximum", atLeast16(), buckets(32, 128),
			"fails on made-up inputs as long as a bucket (128), though it takes such of length 16: 128 elements",
		},
		{
			"no such input", eachRow(doubled), entry("z", modelrepo.VariableDim{Axis: 1, Buckets: []int{8}}),
			`variable_dims names "z", but the model's inputs are "x"`,
		},
		{
			"no such dimension", eachRow(doubled), entry("x", modelrepo.VariableDim{Axis: 2, Buckets: []int{8}}),
			"variable_dims.x.axis is 2, but the shape is [?,?]; dimensions count from 0",
		},
		{
			"the batch dimension", eachRow(doubled), entry("x", modelrepo.VariableDim{Axis: 0, Buckets: []int{8}}),
			"variable_dims.x.axis is 0, which is the batch dimension of [?,?]",
		},
		{
			"a fixed dimension", perRow(3, double), entry("x", modelrepo.VariableDim{Axis: 1, Buckets: []int{8}}),
			"axis is 1, but the shape is [?,3]; only a dimension whose size is open",
		},
		{"an input without rows", recurrent(), func(m *modelrepo.Manifest) {
			m.Batching.VariableDims = map[string]modelrepo.VariableDim{"rate": {Axis: 0, Buckets: []int{8}}}
		}, `names "rate", which has no batch dimension`},
		{
			"a pad value of another type", half(tensor.Int32),
			entry("x", modelrepo.VariableDim{Axis: 1, Buckets: []int{8}, PadValue: "0.5"}),
			`variable_dims.x.pad_value: expected a whole number that int32 holds, found "0.5" (the input is int32)`,
		},
		{
			"a pad value out of range", half(tensor.Float16),
			entry("x", modelrepo.VariableDim{Axis: 1, Buckets: []int{8}, PadValue: "-1e9"}),
			"pad_value: -1e9 is beyond the range of fp16",
		},
		{"an equal dimension without rows", named("tokens", "8"), func(m *modelrepo.Manifest) {
			buckets(4, 8)(m)
			m.Batching.Unbatched = []string{"more"}
		}, `variable_dims.x: input "more", which has no batch dimension, has that dimension too (the model calls it "tokens")`},
		{
			"one of two equal dimensions", named("batch", "tokens"), buckets(4, 8),
			`no entry for input "more", whose dimension 1 the model calls "tokens" like that of "x"; add one with axis: 1 and buckets: [4, 8]`,
		},
		{
			"two equal dimensions in one input", named("tokens", "tokens"),
			entry("more", modelrepo.VariableDim{Axis: 1, Buckets: []int{4, 8}}),
			`calls two dimensions of this input "tokens"`,
		},
		{
			"equal dimensions, other buckets", named("batch", "tokens"),
			entry("more", modelrepo.VariableDim{Axis: 1, Buckets: []int{8}}),
			`more.buckets are 8, but those of "x" are 4, 8, and the model calls both dimensions "tokens"; give both the same`,
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			w := newWorld(t, 1)
			w.add("m", 1, test.model, test.change)
			if v := w.load("m"); v.State != catalog.Failed || !strings.Contains(v.Fault.Error(), test.cause) {
				t.Errorf("state %v: %s\nwant failed: ...%s...", v.State, v.Fault, test.cause)
			}
		})
	}
}

// TestBatchSizesOfTheLongestBucket: a size that was not proven for every bucket is not used, but a bucket whose large
// batches would only cost too much leaves them to the others.
func TestBatchSizesOfTheLongestBucket(t *testing.T) {
	for _, test := range []struct {
		name   string
		model  *fake
		change func(*modelrepo.Manifest)
		most   int
		sizes  []int
	}{
		{name: "out of memory", model: sequence(func(rows [][]float32) ([][]float32, error) {
			if len(rows)*len(rows[0]) >= 128 && len(rows[0]) == 8 {
				return nil, fmt.Errorf("allocate: %w", errMemory)
			}
			return rows, nil
		}), most: 8},
		{
			name: "out of memory at an allowed size", model: sequence(func(rows [][]float32) ([][]float32, error) {
				if len(rows)*len(rows[0]) >= 128 && len(rows[0]) == 8 {
					return nil, fmt.Errorf("allocate: %w", errMemory)
				}
				return rows, nil
			}), change: func(m *modelrepo.Manifest) { m.Batching.AllowedBatchSizes = []int{1, 6, 32, 64} }, most: 6,
			sizes: []int{1, 6},
		},
		{
			name: "too dear", model: sequence(func(rows [][]float32) ([][]float32, error) {
				if len(rows) > 8 && len(rows[0]) == 8 {
					busy(15 * time.Millisecond)
				}
				return rows, nil
			}), change: func(m *modelrepo.Manifest) { m.Batching.MaxBatchCost = config.Duration(10 * time.Millisecond) },
			most: 64,
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			w := newWorld(t, 1)
			w.add("m", 1, test.model, func(m *modelrepo.Manifest) {
				buckets(4, 8)(m)
				if test.change != nil {
					test.change(m)
				}
			})
			v := w.load("m")
			if v.Signature.Inputs[0].Variable.Buckets == nil || v.Batching.MaxBatchSize != test.most {
				t.Errorf("at most %d rows, want %d: %s", v.Batching.MaxBatchSize, test.most, v.Batching.Reason)
			}
			if diff := cmp.Diff(test.sizes, v.Batching.AllowedBatchSizes, cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("allowed sizes (-want +got):\n%s", diff)
			}
		})
	}
}

// TestLengthsShareExecutions: requests of different lengths share executions, only buckets are executed, and each gets
// the answer to its own elements in its own length.
func TestLengthsShareExecutions(t *testing.T) {
	f := slowly(eachRow(doubled))
	run, shapes := f.Answer, map[int64]bool{}
	f.Answer = func(b *tensor.Batch) error {
		shapes[b.Inputs[0].Shape[1]] = true // one lane: runs follow each other
		return run(b)
	}
	w := newWorld(t, 1)
	w.add("m", 1, f, func(m *modelrepo.Manifest) {
		buckets(4, 8, 16)(m)
		m.Batching.MaxBatchSize, m.Batching.AllowedBatchSizes = 16, []int{2, 6, 16}
	})
	v := w.load("m")
	clear(shapes)
	crowd(t, 1500, func(i int) (sharedsched.Outcome, error) {
		rows, length := 1+i%3, 1+i%16
		if i%100 == 0 {
			rows = 40 // split
		}
		in := make([]float32, rows*length)
		for k := range in {
			in[k] = float32(100*i + k + 1)
		}
		c := ask(v, rows, in...)
		if err := w.Predict(t.Context(), c); err != nil {
			return c.Outcome, err
		}
		if diff := cmp.Diff(tensor.Shape{int64(rows), int64(length)}, c.Results[0].Shape); diff != "" {
			return c.Outcome, fmt.Errorf("shape (-want +got):\n%s", diff)
		}
		for k, y := range values(c.Results[0]) {
			if y != 2*in[k] {
				return c.Outcome, fmt.Errorf("value %d is %v, want %v", k, y, 2*in[k])
			}
		}
		return c.Outcome, nil
	})
	if diff := cmp.Diff(map[int64]bool{4: true, 8: true, 16: true}, shapes); diff != "" {
		t.Errorf("lengths of runs (-want +got):\n%s", diff)
	}
}
