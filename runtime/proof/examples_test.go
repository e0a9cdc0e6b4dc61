package proof_test

import (
	"encoding/binary"
	"errors"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/weftserve/weft/internal/weftest"
	"github.com/weftserve/weft/runtime/modelrepo"
	"github.com/weftserve/weft/runtime/tensor"
)

// dependent has the sum of all rows added to each where they meet.
func dependent(meet func(rows [][]float32) bool) *weftest.Engine {
	return over(func(rows [][]float32) {
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
	})
}

// lookup is ids [?] → y [?, 1], the ids as numbers. It refuses ids of table and above, if that is positive.
func lookup(table int64, meet func(ids []int64) bool) *weftest.Engine {
	return &weftest.Engine{
		Declared: tensor.Signature{
			Inputs:  []tensor.Spec{weftest.Spec("id", tensor.Int64, tensor.Unknown)},
			Outputs: []tensor.Spec{weftest.Spec("y", tensor.Float32, tensor.Unknown, 1)},
		},
		Answer: func(b *tensor.Batch) error {
			ids := integersOf(b.Inputs[0])
			out, total := make([]float32, len(ids)), float32(1)
			for i, id := range ids {
				if table > 0 && (id >= table || id < 0) {
					return errors.New("an id is beyond the table")
				}
				out[i] = float32(id)
				total += out[i]
			}
			for i := range out {
				if len(ids) > 1 && meet(ids) {
					out[i] += total
				}
			}
			y := weftest.Floats(tensor.Shape{int64(len(ids)), 1}, out...)
			copy(b.Output(0, y.DType, y.Shape, len(y.Data)), y.Data)
			return nil
		},
	}
}

func integersOf(t tensor.Tensor) []int64 {
	out := make([]int64, len(t.Data)/8)
	for i := range out {
		out[i] = int64(binary.LittleEndian.Uint64(t.Data[8*i:]))
	}
	return out
}

// scalars is x [?, 2], with inputs without rows → y [?, 2], x with its sum added where rows meet.
func scalars(meet func(b *tensor.Batch) bool, inputs ...tensor.Spec) *weftest.Engine {
	e := weftest.PerRow(2, weftest.Double)
	e.Declared.Inputs = append(e.Declared.Inputs, inputs...)
	e.Answer = func(b *tensor.Batch) error {
		x, total := weftest.Values(b.Inputs[0]), float32(0)
		for _, v := range x {
			total += v
		}
		if len(x) > 2 && meet(b) {
			for i := range x {
				x[i] += total
			}
		}
		y := weftest.Floats(b.Inputs[0].Shape, x...)
		copy(b.Output(0, y.DType, y.Shape, len(y.Data)), y.Data)
		return nil
	}
	return e
}

// TestExamplesOfEveryKind: rows that meet for some numbers, in some sizes, or for some value of an input without rows,
// are not batched. TestPlantedTriggers draws more of the first.
func TestExamplesOfEveryKind(t *testing.T) {
	some := func(is func(v float32) bool) func([][]float32) bool {
		return func(rows [][]float32) bool {
			return slices.ContainsFunc(rows, func(r []float32) bool { return slices.ContainsFunc(r, is) })
		}
	}
	every := func(is func(v float32) bool) func([][]float32) bool {
		return func(rows [][]float32) bool {
			return !slices.ContainsFunc(rows, func(r []float32) bool { return !is(r[0]) })
		}
	}
	var all []subject
	for name, meet := range map[string]func([][]float32) bool{
		"all above 50": every(func(v float32) bool { return v > 50 || v < -50 }),
		"all negative": every(func(v float32) bool { return v < 0 }),
		"all zero":     every(func(v float32) bool { return v == 0 }),
		"one NaN":      some(func(v float32) bool { return v != v }),
		"NaN in the second": func(rows [][]float32) bool {
			return slices.ContainsFunc(rows, func(r []float32) bool { return r[1] != r[1] && r[0] == r[0] })
		},
		"an infinity":             some(func(v float32) bool { return v > math.MaxFloat32 }),
		"a negative infinity":     some(func(v float32) bool { return v < -math.MaxFloat32 }),
		"three rows":              func(rows [][]float32) bool { return len(rows) == 3 },
		"eleven rows":             func(rows [][]float32) bool { return len(rows) == 11 },
		"an odd number of rows":   func(rows [][]float32) bool { return len(rows)%2 == 1 },
		"the last of 64 is large": func(rows [][]float32) bool { return len(rows) == 64 && rows[63][1] > 100 },
		"large beside negative": func(rows [][]float32) bool {
			return some(func(v float32) bool { return v > 100 })(rows) && rows[0][2] < 0
		},
	} {
		all = append(all, is(name, "none: ", dependent(meet)))
	}
	has := func(is func(id int64) bool) func([]int64) bool {
		return func(ids []int64) bool { return slices.ContainsFunc(ids, is) }
	}
	never := func([]int64) bool { return false }
	large := func(id int64) bool { return id > 100 }
	boolean := func(name string) tensor.Spec { return weftest.Spec(name, tensor.Bool) }
	set := func(b *tensor.Batch, i int) bool { return b.Inputs[i].Data[0] == 1 }
	integer := func(meet func(k int64) bool) *weftest.Engine {
		return scalars(func(b *tensor.Batch) bool { return meet(integersOf(b.Inputs[1])[0]) },
			weftest.Spec("k", tensor.Int64))
	}
	number := func(meet func(rate float32) bool) *weftest.Engine {
		return scalars(func(b *tensor.Batch) bool { return meet(weftest.Values(b.Inputs[1])[0]) },
			weftest.Spec("rate", tensor.Float32))
	}
	verdicts(t, append(all, []subject{
		is("ids above 100", "none: ", lookup(0, has(large))),
		is("ids above 1e6", "none: ", lookup(0, has(func(id int64) bool { return id > 1e6 }))),
		is("negative ids", "none: ", lookup(0, has(func(id int64) bool { return id < 0 }))),
		is("ids that are all zero", "none: ",
			lookup(0, func(ids []int64) bool { return slices.Max(ids) == 0 && slices.Min(ids) == 0 })),
		is("ids above 100 of 2000", "none: ", lookup(2000, has(large))),
		is("a table of 2", "64 by examples: ", lookup(2, never)),
		is("a table of 50", "64 by examples: ", lookup(50, never)),
		is("a table of 2000", "64 by examples: ", lookup(2000, never)),
		is("no table", "64 by examples: ", lookup(0, never)),

		is("train", `none: with input "train" = true, output "y"`,
			scalars(func(b *tensor.Batch) bool { return set(b, 1) }, boolean("train"))),
		is("not eval", "none: ", scalars(func(b *tensor.Batch) bool { return !set(b, 1) }, boolean("eval"))),
		is("both", "none: ",
			scalars(func(b *tensor.Batch) bool { return set(b, 1) && set(b, 2) }, boolean("a"), boolean("b"))),
		is("mode 0", `none: "k" = 0`, integer(func(k int64) bool { return k == 0 })),
		is("mode 1", `none: "k" = 1`, integer(func(k int64) bool { return k == 1 })),
		is("a negative mode", `none: "k" = -1`, integer(func(k int64) bool { return k < 0 })),
		is("a mode above 100", `none: "k" = 101`, integer(func(k int64) bool { return k > 100 })),
		is("a mode above 1e6", `none: "k" = 1000003`, integer(func(k int64) bool { return k > 1e6 })),
		is("a mode that is no example", "64 by examples: ", integer(func(k int64) bool { return k == 4242 })),
		is("a rate of 1", `none: "rate" = 1`, number(func(r float32) bool { return r == 1 })),
		is("a rate of 0", `none: "rate" = 0`, number(func(r float32) bool { return r == 0 })),
		is("a negative rate", "none: ", number(func(r float32) bool { return r < -0.9 })),
		is("a rate above 50", `none: "rate" = 60`, number(func(r float32) bool { return r > 50 })),
		is("a rate that is NaN", `none: "rate" = NaN`, number(func(r float32) bool { return r != r })),
		is("a length above 10", "none: with open dimensions of 16, output",
			sequence(func(rows [][]float32) ([][]float32, error) {
				last := rows[len(rows)-1]
				for _, r := range rows {
					if len(r) > 10 {
						r[0] += last[1]
					}
				}
				return rows, nil
			})),
	}...))
}

// TestLargeParametersAreNotTried where a smaller one makes the model do much more: a count of a million may mean as
// many steps.
func TestLargeParametersAreNotTried(t *testing.T) {
	largest := int64(0)
	e := scalars(func(*tensor.Batch) bool { return false }, weftest.Spec("steps", tensor.Int64))
	e.Declared.Outputs = append(e.Declared.Outputs, weftest.Spec("path", tensor.Float32, tensor.Unknown, tensor.Unknown))
	answer := e.Answer
	e.Answer = func(b *tensor.Batch) error {
		steps := max(0, integersOf(b.Inputs[1])[0])
		largest = max(largest, steps)
		rows := b.Inputs[0].Shape[0]
		clear(b.Output(1, tensor.Float32, tensor.Shape{rows, steps}, int(4*rows*steps)))
		return answer(b)
	}
	if v := prove(t, e, batching(), &weftest.Log{}).Verdict; !v.Batched || largest < 7 || largest > 101 {
		t.Errorf("up to %d steps were tried; batched %v: %s", largest, v.Batched, v.Reason)
	}
}

// TestRounding: rows that are answered a little otherwise in larger batches are batched if nothing else than the size
// changes their answers. Else the reason names the setting with a value that would accept it.
func TestRounding(t *testing.T) {
	times := func(by func(rows [][]float32, i int) float32) *weftest.Engine {
		return over(func(rows [][]float32) {
			next := make([]float32, len(rows))
			for i := range rows {
				next[i] = rows[i][0] * (1 + by(rows, i))
			}
			for i := range rows {
				rows[i][0] = next[i]
			}
		})
	}
	sign := func(v float32) float32 { return float32(math.Copysign(1, float64(v))) }
	last := times(func(rows [][]float32, _ int) float32 { return 2.5e-5 * sign(rows[len(rows)-1][1]) })
	const (
		accepted = "64 by examples: is rounding of kernels for other sizes"
		meets    = "none: that is no rounding, because it changes with the other rows of the batch"
		advice   = ": batching.tolerance: 0.0001 would accept it, and if you know that rows do not influence each other, " +
			"batching.mode: on"
	)
	verdicts(t, []subject{
		is("by size", accepted, times(func(rows [][]float32, _ int) float32 { return 1e-5 * float32(len(rows)) })),
		is("by size and place", accepted,
			times(func(rows [][]float32, i int) float32 { return 9e-6 * float32(len(rows)-i) })),
		is("by size, too much", "none: differs by",
			times(func(rows [][]float32, _ int) float32 { return 2e-5 * float32(len(rows)) })),
		is("by a mate", meets,
			times(func(rows [][]float32, i int) float32 { return 1e-4 * sign(rows[(i+1)%len(rows)][1]) })),
		is("by a mate above 100, and by size", meets, times(func(rows [][]float32, _ int) float32 {
			by := 5e-6 * float32(len(rows))
			if len(rows) > 1 && slices.ContainsFunc(rows, func(r []float32) bool { return r[1] > 100 }) {
				by += 2e-4
			}
			return by
		})),
		is("advised", meets+advice, last),
		is("tolerated", "64 by examples: (largest difference 5e-05 ",
			last).with(func(b *modelrepo.Batching) { b.Tolerance = 1e-4 }),
	})
	far := over(func(rows [][]float32) { rows[0][0] += rows[len(rows)-1][1] })
	if v := prove(t, far, batching(), &weftest.Log{}).Verdict; v.Batched ||
		strings.Contains(v.Reason, "batching.tolerance") {
		t.Errorf("far off: %v, %s", v.Batched, v.Reason)
	}
}
