package proof_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/weftserve/weft/internal/config"
	"github.com/weftserve/weft/internal/onnxgraph"
	"github.com/weftserve/weft/internal/weftest"
	"github.com/weftserve/weft/runtime/modelrepo"
	"github.com/weftserve/weft/runtime/tensor"
)

// sequence is x [?, ?] → y [?, ?]: rows of any length, the same for all rows of a run.
func sequence(f func(rows [][]float32) ([][]float32, error)) *weftest.Engine {
	return &weftest.Engine{
		Declared: tensor.Signature{
			Inputs:  []tensor.Spec{weftest.Spec("x", tensor.Float32, tensor.Unknown, tensor.Unknown)},
			Outputs: []tensor.Spec{weftest.Spec("y", tensor.Float32, tensor.Unknown, tensor.Unknown)},
		},
		Answer: func(b *tensor.Batch) error {
			out, err := f(slices.Collect(slices.Chunk(weftest.Values(b.Inputs[0]), int(b.Inputs[0].Shape[1]))))
			if err != nil {
				return err
			}
			y := weftest.Floats(tensor.Shape{int64(len(out)), int64(len(out[0]))}, slices.Concat(out...)...)
			copy(b.Output(0, y.DType, y.Shape, len(y.Data)), y.Data)
			return nil
		},
	}
}

// eachRow applies f to each row of a sequence.
func eachRow(f func(row []float32) []float32) *weftest.Engine {
	return sequence(func(rows [][]float32) ([][]float32, error) {
		for i, row := range rows {
			rows[i] = f(row)
		}
		return rows, nil
	})
}

func twice(row []float32) []float32 {
	_ = weftest.Double(row)
	return row
}

func total(row []float32) []float32 {
	sum := float32(0)
	for _, v := range row {
		sum += v
	}
	return []float32{sum}
}

func average(row []float32) []float32 { return []float32{total(row)[0] / float32(len(row))} }

// buckets has x padded with zeros.
func buckets(sizes ...int) func(*modelrepo.Batching) {
	return variable("x", modelrepo.VariableDim{Axis: 1, Buckets: sizes})
}

func variable(name string, v modelrepo.VariableDim) func(*modelrepo.Batching) {
	return func(b *modelrepo.Batching) {
		b.VariableDims = map[string]modelrepo.VariableDim{"x": {Axis: 1, Buckets: []int{4, 8}}, name: v}
	}
}

func TestPadding(t *testing.T) {
	padded := func(more ...func(*modelrepo.Batching)) func(*modelrepo.Batching) {
		return func(b *modelrepo.Batching) {
			buckets(4, 8)(b)
			for _, f := range more {
				f(b)
			}
		}
	}
	slowly := func(took func(rows, length int64) time.Duration, e *weftest.Engine) *weftest.Engine {
		return costing(e, func(b *tensor.Batch) time.Duration { return took(b.Inputs[0].Shape[0], b.Inputs[0].Shape[1]) })
	}
	full := func(rows [][]float32) ([][]float32, error) {
		if len(rows)*len(rows[0]) >= 128 && len(rows[0]) == 8 {
			return nil, fmt.Errorf("allocate: %w", errFull)
		}
		return rows, nil
	}
	const harms = "64 by examples: because padding is not proven harmless: "
	verdicts(t, []subject{
		is("each element by itself", "64 by examples, padded: ; so is padding to 4, 8 (largest difference 0)",
			eachRow(twice)).with(padded()),
		is("zeros do not matter", "64 by examples, padded: ; so is padding to 4, 8 ", eachRow(total)).with(padded()),
		is("all elements matter", harms+`output "y" of a row differs by`, eachRow(average)).with(padded()),
		is("the last element matters", "64 by examples: of its magnitude padded to 4 (tolerated: 1e-05)",
			eachRow(func(row []float32) []float32 { return row[len(row)-1:] })).with(padded()),
		is("twice as long and one",
			harms+`output "y" of a row padded to 4 has type fp32 and shape [1,9] instead of`,
			eachRow(func(row []float32) []float32 { return append(slices.Concat(row, row), 1) })).with(padded()),
		is("only the longer bucket harms", "64 by examples: padded to 8 (tolerated",
			eachRow(func(row []float32) []float32 {
				if len(row) == 8 {
					return average(row)
				}
				return total(row)
			})).with(padded()),
		is("only mates of other lengths harm", "64 by examples: rows padded to 4 (tolerated",
			sequence(func(rows [][]float32) ([][]float32, error) {
				ragged := float32(0)
				for _, row := range rows {
					if row[len(row)-1] == -77 {
						ragged++
					}
				}
				for i := range rows {
					rows[i] = total(slices.DeleteFunc(rows[i], func(v float32) bool { return v == -77 }))
					if len(rows) > 1 && ragged < float32(len(rows)) {
						rows[i][0] += ragged
					}
				}
				return rows, nil
			})).with(variable("x", modelrepo.VariableDim{Axis: 1, Buckets: []int{4, 8}, PadValue: "-77"})),
		is("fails on padding", harms+"a request that ran alone fails padded to 4: a zero at the end",
			sequence(func(rows [][]float32) ([][]float32, error) {
				for _, row := range rows {
					if row[len(row)-1] == 0 {
						return nil, errors.New("a zero at the end")
					}
					clear(row[1:])
				}
				return rows, nil
			})).with(padded()),
		is("takes full buckets only",
			harms+`the model takes no made-up input "x" that is shorter than its bucket (4), which shows nothing`,
			sequence(func(rows [][]float32) ([][]float32, error) {
				if len(rows[0])%4 != 0 {
					return nil, errOther
				}
				return rows, nil
			})).with(padded()),
		is("a row of a bucket takes longer than a batch may", "64 by examples, padded: ; so is padding to 4, 8 ",
			slowly(func(rows, length int64) time.Duration {
				return map[bool]time.Duration{true: 15 * time.Millisecond, false: time.Microsecond}[length == 8]
			}, eachRow(total))).with(padded(within(10 * time.Millisecond))),
		is("batches of a bucket take longer", "64 by examples, padded: ",
			slowly(func(rows, length int64) time.Duration {
				return map[bool]time.Duration{true: 15 * time.Millisecond, false: time.Microsecond}[length == 8 && rows > 8]
			}, eachRow(total))).with(padded(within(10 * time.Millisecond))),
		is("no memory for batches of a bucket", "8 by examples, padded: ", sequence(full)).with(padded()),
		is("no memory for an allowed size", "6 by examples, padded: ",
			sequence(full)).with(padded(sizes(1, 6, 32, 64))),
		is("no memory for a bucket", harms+"the device's memory does not suffice for one row of 8",
			sequence(func(rows [][]float32) ([][]float32, error) {
				if len(rows[0]) == 8 {
					return nil, errFull
				}
				return rows, nil
			})).with(padded()),
		is("beyond all memory", harms+"one row of 1073741824 exceeds the memory that a proof may take",
			eachRow(total)).with(buckets(4, 1<<30)),
		is("on", "64 by trusted, padded: without proof, and lengths padded to their buckets",
			eachRow(average)).with(padded(mode(modelrepo.BatchOn))),
		is("off", "none: batching.mode is off", eachRow(twice)).with(padded(mode(modelrepo.BatchOff))),
	})
	b := batching()
	padded(sizes(1, 6, 32, 64))(b)
	found := prove(t, sequence(full), b, &weftest.Log{})
	if diff := gocmp.Diff([]string{
		`input "x" takes 1 to 8 elements in dimension 1, padded to 4, 8`,
		`output "y" is cut back in dimension 1 to the length of input "x"`,
	}, found.Signature.Notes); diff != "" || !slices.Equal(found.Verdict.Allowed, []int{1, 6}) {
		t.Errorf("sizes %v, notes (-want +got):\n%s", found.Verdict.Allowed, diff)
	}
	if v := found.Signature.Inputs[0].Variable; v.Most != 8 || len(v.Buckets) != 2 ||
		found.Bare.Inputs[0].Variable.Most != 8 || found.Bare.Inputs[0].Variable.Buckets != nil {
		t.Errorf("published with %+v", v)
	}
}

// TestBucketsThatDoNotFit the model, or the other settings.
func TestBucketsThatDoNotFit(t *testing.T) {
	from16 := func() *weftest.Engine {
		return sequence(func(rows [][]float32) ([][]float32, error) {
			if n := len(rows[0]); n < 16 || n > 64 {
				return nil, fmt.Errorf("%d elements", n)
			}
			return rows, nil
		})
	}
	named := func(names ...string) *weftest.Engine {
		e := eachRow(twice)
		e.Declared.Inputs[0].DimNames = []string{"batch", "tokens"}
		more := weftest.Spec("more", tensor.Float32, tensor.Unknown, tensor.Unknown)
		more.DimNames = names
		e.Declared.Inputs = append(e.Declared.Inputs, more)
		return e
	}
	of := func(d tensor.DType) *weftest.Engine {
		e := eachRow(twice)
		e.Declared.Inputs[0].DType = d
		return e
	}
	dim := func(axis int, pad config.Scalar, sizes ...int) modelrepo.VariableDim {
		return modelrepo.VariableDim{Axis: axis, Buckets: sizes, PadValue: pad}
	}
	const long = "fails on made-up inputs as long as a bucket "
	verdicts(t, []subject{
		is("all below the model's minimum",
			"fault: "+long+"(4), though it takes such of length 16: 4 elements; remove that bucket",
			from16()).with(buckets(4, 8)),
		is("one below it", "fault: "+long+"(8), though it takes such of length 16: 8 elements",
			from16()).with(buckets(8, 32)),
		is("one above its maximum", "fault: "+long+"(128), though it takes such of length 16",
			from16()).with(buckets(32, 128)),
		is("no such input", `fault: variable_dims names "z", but the model's inputs are "x"`,
			eachRow(twice)).with(variable("z", dim(1, "", 8))),
		is("no such dimension", "fault: variable_dims.x.axis is 2, but the shape is [?,?]; dimensions count from 0",
			eachRow(twice)).with(variable("x", dim(2, "", 8))),
		is("the batch dimension", "fault: variable_dims.x.axis is 0, which is the batch dimension of [?,?]",
			eachRow(twice)).with(variable("x", dim(0, "", 8))),
		is("a fixed dimension", "fault: axis is 1, but the shape is [?,3]; only a dimension whose size is open",
			doubles()).with(buckets(8)),
		is("an input without rows", `fault: names "rate", which has no batch dimension`,
			scalars(nil, weftest.Spec("rate", tensor.Float32))).with(func(b *modelrepo.Batching) {
			b.VariableDims = map[string]modelrepo.VariableDim{"rate": dim(0, "", 8)}
		}),
		is("a pad value of another type",
			"fault: variable_dims.x.pad_value: "+
				`expected a whole number that int32 holds, found "0.5" (the input is int32)`,
			of(tensor.Int32)).with(variable("x", dim(1, "0.5", 8))),
		is("a pad value out of range", "fault: pad_value: -1e9 is beyond the range of fp16",
			of(tensor.Float16)).with(variable("x", dim(1, "-1e9", 8))),
		is("an equal dimension without rows",
			`fault: variable_dims.x: input "more", which has no batch dimension, has that dimension too (the model `+
				`calls it "tokens")`,
			named("tokens", "8")).with(func(b *modelrepo.Batching) {
			buckets(4, 8)(b)
			b.Unbatched = []string{"more"}
		}),
		is("one of two equal dimensions",
			`fault: no entry for input "more", whose dimension 1 the model calls "tokens" like that of "x"; add one `+
				`with axis: 1 and buckets: [4, 8]`,
			named("batch", "tokens")).with(buckets(4, 8)),
		is("two equal dimensions in one input", `fault: calls two dimensions of this input "tokens"`,
			named("tokens", "tokens")).with(variable("more", dim(1, "", 4, 8))),
		is("equal dimensions, other buckets",
			`fault: more.buckets are 8, but those of "x" are 4, 8, and the model calls both dimensions "tokens"; give `+
				`both the same`,
			named("batch", "tokens")).with(variable("more", dim(1, "", 8))),
	})
}

// encoder is ids and mask [batch, tokens] → each token's row of a table, and their mean: of the ones that the mask lets
// through, or of all.
func encoder(masked bool) []byte {
	g := onnxgraph.New("encoder").Input("ids", onnxgraph.Int64, "batch", "tokens").
		Input("mask", onnxgraph.Int64, "batch", "tokens")
	g.InitFloats("table", []int64{8, 2}, 1, -2, 3, 4, -5, 6, 7, 8, 9, -1, 2, 3, 5, -7, 1, 4)
	g.InitInt64s("last", []int64{1}, 2)
	g.InitInt64s("middle", []int64{1}, 1)
	g.Node("Gather", []string{"table", "ids"}, []string{"states"}, onnxgraph.IntAttr("axis", 0))
	g.Node("Cast", []string{"mask"}, []string{"weights"}, onnxgraph.IntAttr("to", int64(onnxgraph.Float)))
	g.Node("Unsqueeze", []string{"weights", "last"}, []string{"column"})
	g.Node("Mul", []string{"states", "column"}, []string{"weighted"})
	if masked {
		g.Node("ReduceSum", []string{"weighted", "middle"}, []string{"sum"}, onnxgraph.IntAttr("keepdims", 0))
		g.Node("ReduceSum", []string{"weights", "middle"}, []string{"count"}, onnxgraph.IntAttr("keepdims", 1))
		g.Node("Div", []string{"sum", "count"}, []string{"pooled"})
	} else {
		g.Node("ReduceMean", []string{"weighted"}, []string{"pooled"}, onnxgraph.IntsAttr("axes", 1),
			onnxgraph.IntAttr("keepdims", 0))
	}
	// The name is not that of the inputs' dimension, as in some exports.
	g.Output("states", onnxgraph.Float, "batch", "sequence", 2).Output("pooled", onnxgraph.Float, "batch", 2)
	return g.Marshal()
}

// TestPaddedSentences of an encoder on ONNX Runtime.
func TestPaddedSentences(t *testing.T) {
	for masked, want := range map[bool]string{
		true:  "; so is padding to 4, 16 (largest difference",
		false: `because padding is not proven harmless: output "pooled" of a row differs by`,
	} {
		b, file := batching(), encoder(masked)
		b.VariableDims = map[string]modelrepo.VariableDim{
			"ids": {Axis: 1, Buckets: []int{4, 16}}, "mask": {Axis: 1, Buckets: []int{4, 16}},
		}
		found, err := proveFile(t, open(t, file), file, b, &weftest.Log{})
		if err != nil {
			t.Fatal(err)
		}
		if v := found.Verdict; !v.Batched || v.Padded != masked || !strings.Contains(v.Reason, want) {
			t.Errorf("masked %v: %+v", masked, v)
		}
		if notes := strings.Join(found.Signature.Notes, "; "); masked && notes != `input "ids" takes 1 to 16 elements in `+
			`dimension 1, padded to 4, 16; input "mask" takes 1 to 16 elements in dimension 1, padded to 4, 16; output "states" `+
			`is cut back in dimension 1 to the length of input "ids"` {
			t.Errorf("notes %q", notes)
		}
	}
}
