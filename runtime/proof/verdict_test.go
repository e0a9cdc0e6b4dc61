package proof_test

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weftserve/weft/internal/config"
	"github.com/weftserve/weft/internal/weftest"
	"github.com/weftserve/weft/runtime/catalog"
	"github.com/weftserve/weft/runtime/engine"
	"github.com/weftserve/weft/runtime/modelrepo"
	"github.com/weftserve/weft/runtime/proof"
	"github.com/weftserve/weft/runtime/tensor"
)

// subject is a model, and what is to be found about it.
type subject struct {
	name   string
	model  *weftest.Engine
	change func(*modelrepo.Batching)
	graph  []byte // the model file
	// want is "64 by examples: part of the reason" for batches of up to 64 rows, "none: part of it" for none, or
	// "fault: part of the error".
	want string
}

// is says what is to be found about a model. with is for another manifest, and of for one with a file.
func is(name, want string, model *weftest.Engine) subject {
	return subject{name: name, want: want, model: model}
}

func (s subject) with(change func(*modelrepo.Batching)) subject {
	s.change = change
	return s
}

func (s subject) of(graph []byte) subject {
	s.graph = graph
	return s
}

// verdicts proves each of them. It returns the notes of the signatures, and which inputs are padded.
func verdicts(t *testing.T, all []subject) {
	t.Helper()
	for _, c := range all {
		t.Run(c.name, func(t *testing.T) {
			b := batching()
			if c.change != nil {
				c.change(b)
			}
			var head, got string
			found, err := proveFile(t, c.model, c.graph, b, &weftest.Log{})
			if err != nil {
				head, got = "fault", err.Error()
			} else {
				v := found.Verdict
				if head, got = "none", v.Reason; v.Batched {
					head = fmt.Sprintf("%d by %s", v.Most, v.Proof)
				}
				if v.Padded {
					head += ", padded"
				}
				byExamples := v.Proof == catalog.ProofExamples
				if v.Batched && v.AnyValue == byExamples || !v.Batched && cmp.Or(v.Proof, catalog.ProofNone) != catalog.ProofNone ||
					v.Padded != (found.Bare != found.Signature) || found.Spent <= 0 {
					t.Errorf("any value %v by %q, padded %v, in %v", v.AnyValue, v.Proof, v.Padded, found.Spent)
				}
				if v.Obstacle != "" {
					got += "; obstacle " + v.Obstacle
				}
			}
			wantHead, want, _ := strings.Cut(c.want, ": ")
			if head != wantHead || !strings.Contains(got, want) {
				t.Errorf("got %s: %s\nwant %s: ...%s...", head, got, wantHead, want)
			}
		})
	}
}

// over is a model x [?, 3] → y [?, 3] that changes all rows in place, and each one that changes each by itself.
func over(f func(rows [][]float32)) *weftest.Engine {
	return weftest.OverRows(3, func(rows [][]float32) error {
		f(rows)
		return nil
	})
}

func each(f func(row []float32)) *weftest.Engine {
	return over(func(rows [][]float32) {
		for _, r := range rows {
			f(r)
		}
	})
}

func doubles() *weftest.Engine { return weftest.PerRow(3, weftest.Double) }

// costing makes the runs of a model take so long, by their rows.
func costing(e *weftest.Engine, took func(b *tensor.Batch) time.Duration) *weftest.Engine {
	answer := e.Answer
	e.Answer = func(b *tensor.Batch) error {
		b.DeviceTime = took(b)
		return answer(b)
	}
	return e
}

// perRow makes each row take so long.
func perRow(e *weftest.Engine, took time.Duration) *weftest.Engine {
	return costing(e, func(b *tensor.Batch) time.Duration { return took * time.Duration(b.Inputs[0].Shape[0]) })
}

func sizes(allowed ...int) func(*modelrepo.Batching) {
	return func(b *modelrepo.Batching) { b.AllowedBatchSizes = allowed }
}

func most(rows int) func(*modelrepo.Batching) {
	return func(b *modelrepo.Batching) { b.MaxBatchSize = rows }
}

func mode(m modelrepo.BatchMode) func(*modelrepo.Batching) {
	return func(b *modelrepo.Batching) { b.Mode = m }
}

// within allows an execution so much time.
func within(d time.Duration) func(*modelrepo.Batching) {
	return func(b *modelrepo.Batching) { b.MaxBatchCost = config.Duration(d) }
}

func mean(rows [][]float32) (sum float32) {
	for _, r := range rows {
		sum += r[0]
	}
	return sum / float32(len(rows))
}

var (
	errFull  = &engine.Error{Kind: engine.OutOfMemory, Err: errors.New("no memory for that")}
	errCrash = &engine.Error{Kind: engine.Crashed, Err: errors.New("SIGFPE")}
	errOther = errors.New("not for me")
)

// fixed is a model of exactly n rows.
func fixed(n int64) *weftest.Engine {
	e := over(func(rows [][]float32) { rows[0][0] += rows[len(rows)-1][0] })
	e.Declared.Inputs[0].Shape[0], e.Declared.Outputs[0].Shape[0] = n, n
	return e
}

func TestVerdicts(t *testing.T) {
	verdicts(t, []subject{
		is("independent rows", "64 by examples: in batches of 2, 4, 8, 16, 32, 64 (largest difference 0 ",
			doubles()),
		is("no power of two", "20 by examples: in batches of 2, 4, 8, 16, 20 ", doubles()).with(most(20)),
		is("allowed sizes", "12 by examples: in batches of 1, 4, 12 ", doubles()).with(sizes(1, 4, 12)),
		is("mean", `none: batching is not proven harmless: output "y" of a row differs by`,
			over(func(rows [][]float32) {
				for m, i := mean(rows), 0; i < len(rows); i++ {
					rows[i][0] -= m
				}
			})),
		is("eight rows fail", "none: a batch of 8 rows fails: not for me", weftest.OverRows(3, upTo(7, errOther))),
		is("no memory for 32",
			"16 by examples: in batches of 2, 4, 8, 16 (largest difference 0 of the largest value); the device's "+
				"memory does not suffice for 32 rows (larger ones are tried when the version is loaded again)",
			weftest.OverRows(3, upTo(31, fmt.Errorf("allocate: %w", errFull)))),
		is("no memory for any", "none: no batch could be tried; the device's",
			weftest.OverRows(3, upTo(1, errFull))),
		is("no memory, on", "64 by trusted: without proof",
			weftest.OverRows(3, upTo(8, errFull))).with(mode(modelrepo.BatchOn)),
		is("a row's place", `none: output "y" of a row differs by`, over(func(rows [][]float32) {
			for i, r := range rows {
				r[0] += float32(i)
			}
		})),
		is("the last of 16", "none: among 16 rows", over(func(rows [][]float32) {
			if len(rows) == 16 {
				rows[15][2] = 0
			}
		})),
		is("equal neighbours are merged, as in padding", `none: output "y" of a row differs by`,
			over(func(rows [][]float32) {
				for i := len(rows) - 1; i > 0; i-- {
					if len(rows) <= 8 && slices.Equal(rows[i], rows[i-1]) {
						rows[i][0] = 7
					}
				}
			})).with(sizes(4, 8)),
		is("within the tolerance", "64 by examples: (largest difference 6.4e-06 ", over(func(rows [][]float32) {
			for _, r := range rows {
				r[0] *= 1 + 1e-7*float32(len(rows))
			}
		})),
		is("no number where there was one", `none: output "y" of a row has another value among 4 rows`,
			over(func(rows [][]float32) {
				if len(rows) == 4 {
					rows[1][1] = float32(math.NaN())
				}
			})),
		is("no number ever",
			`none: output "y" has no finite number for any made-up input, which shows nothing; if you know that rows `+
				`do not influence each other, batching.mode: on joins them`,
			each(func(r []float32) { r[0], r[1], r[2] = r[0]/0, r[1]/0, r[2]/0 })),
		is("small beside large", `none: output "y" of a row differs by`, over(func(rows [][]float32) {
			m := mean(rows)
			for _, r := range rows {
				r[1] -= m
				r[2] *= 1e6
			}
		})),
		is("beyond ordinary numbers", `none: output "y" of a row differs by`, over(func(rows [][]float32) {
			most := slices.MaxFunc(rows, slices.Compare)[0]
			for _, r := range rows {
				r[0] = max(0, most-100)
			}
		})),
		is("the same for all", "none: gives every made-up input the same answer",
			each(func(r []float32) { clear(r) })),
		is("zeros only", "none: the model takes no made-up input but a constant one, which shows nothing",
			weftest.PerRow(3, func(r []float32) error {
				if r[0] != 0 {
					return errOther
				}
				return nil
			})),
		is("nothing made up", "none: fails on made-up inputs even for one row: not for me; if you know",
			weftest.OverRows(3, upTo(0, errOther))),
		is("crashes", "none: fails on made-up inputs even for one row: SIGFPE",
			weftest.OverRows(3, upTo(0, errCrash))),
		is("off", "none: batching.mode is off", doubles()).with(mode(modelrepo.BatchOff)),
		is("one row at most", "none: one row is the most", doubles()).with(most(1)),
		is("on, though rows meet", "64 by trusted: batching.mode is on: rows are joined without proof",
			over(func(rows [][]float32) { rows[0][0] += mean(rows) })).with(mode(modelrepo.BatchOn)),
		is("a fixed batch", "none: no input has an open batch dimension, so every request is an execution of its own; "+
			"export the model with dimension 0 of its inputs open: dynamic_shapes, or dynamic_axes (docs/quickstart/python-policy.md)",
			fixed(2)),
	})
}

// TestDearRows: where one row takes more than an execution may, requests are run row by row if rows are independent.
func TestDearRows(t *testing.T) {
	dear := func(e *weftest.Engine) *weftest.Engine { return perRow(e, time.Millisecond) }
	over100 := func(sizes ...int) func(b *modelrepo.Batching) {
		return func(b *modelrepo.Batching) {
			within(100 * time.Microsecond)(b)
			b.AllowedBatchSizes = sizes
		}
	}
	const says = "one row takes 1ms, more than batching.max_batch_cost (100µs) allows for an execution, so its rows are " +
		"run one by one; they are proven independent by "
	verdicts(t, []subject{
		is("independent", "1 by examples: "+says+"examples", dear(doubles())).with(over100()),
		is("by its graph", "1 by structure: "+says+"structure", dear(doubles())).with(over100()).of(doubling()),
		is("that meet",
			`none: its rows are not run one by one, because they are not proven independent: output "y" of a row `+
				`differs by`,
			dear(over(func(rows [][]float32) { rows[0][0] += rows[len(rows)-1][1] }))).with(over100()),
		is("two are the fewest", "2 by examples: run one by one", dear(doubles())).with(over100(2, 4)),
		is("all alike", "none: no small batch shows it", dear(each(func(r []float32) { clear(r) }))).with(over100()),
		is("on", "64 by trusted: ",
			dear(doubles())).with(func(b *modelrepo.Batching) { over100()(b); b.Mode = modelrepo.BatchOn }),
		is("batches up to the budget", "8 by examples: ; more rows would exceed batching.max_batch_cost (1ms)",
			perRow(doubles(), 200*time.Microsecond)).with(within(time.Millisecond)),
	})
}

// TestRows: in whatever dimension of inputs and outputs they are.
func TestRows(t *testing.T) {
	named := func(s tensor.Spec, names ...string) tensor.Spec {
		s.DimNames = names
		return s
	}
	const unknown = tensor.Unknown
	answer := func(outputs []tensor.Spec, f func(in []tensor.Tensor) ([]tensor.Tensor, error), inputs ...tensor.Spec,
	) *weftest.Engine {
		return &weftest.Engine{
			Declared: tensor.Signature{Inputs: inputs, Outputs: outputs},
			Answer: func(b *tensor.Batch) error {
				out, err := f(b.Inputs)
				for i, o := range out {
					copy(b.Output(i, o.DType, o.Shape, len(o.Data)), o.Data)
				}
				return err
			},
		}
	}
	x, y := weftest.Spec("x", tensor.Float32, unknown, 2), weftest.Spec("y", tensor.Float32, unknown, 2)
	ids := named(weftest.Spec("ids", tensor.Int64, unknown, unknown), "batch", "tokens")
	mask := named(weftest.Spec("mask", tensor.Int64, unknown, unknown), "batch", "tokens")
	constant := func(in []tensor.Tensor) ([]tensor.Tensor, error) {
		return []tensor.Tensor{in[0], weftest.Floats(tensor.Shape{2}, 5, 6)}, nil
	}
	classes := weftest.Spec("classes", tensor.Float32, 2)
	verdicts(t, []subject{
		is("open dimensions of one name, and a least length", "64 by examples: ",
			answer([]tensor.Spec{named(weftest.Spec("y", tensor.Int64, unknown, unknown),
				"batch", "tokens")}, func(in []tensor.Tensor) ([]tensor.Tensor, error) {
				if !slices.Equal(in[0].Shape, in[1].Shape) || in[0].Shape[1] < 16 {
					return nil, fmt.Errorf("shapes %v and %v", in[0].Shape, in[1].Shape)
				}
				return in[:1], nil
			}, ids, mask)),
		is("of a recurrent state", "64 by examples: ",
			answer([]tensor.Spec{y, weftest.Spec("next", tensor.Float32, unknown, unknown, unknown)},
				func(in []tensor.Tensor) ([]tensor.Tensor, error) { return in[:2], nil },
				x, weftest.Spec("state", tensor.Float32, 3, unknown, 2), weftest.Spec("rate", tensor.Float32))),
		is("of a graph's nodes and edges", "none: ", answer([]tensor.Spec{weftest.Spec("sum", tensor.Float32, 1)},
			func(in []tensor.Tensor) ([]tensor.Tensor, error) {
				return []tensor.Tensor{weftest.Floats(tensor.Shape{1}, mean([][]float32{weftest.Values(in[0])}))}, nil
			}, weftest.Spec("nodes", tensor.Float32, unknown, 1), weftest.Spec("edges", tensor.Int64, unknown, 2))),
		is("an output without, that is the same for all", "64 by examples: ",
			answer([]tensor.Spec{y, classes}, constant, x)),
		is("an output without, that is not", `none: output "classes"`,
			answer([]tensor.Spec{y, classes}, func(in []tensor.Tensor) ([]tensor.Tensor, error) {
				return []tensor.Tensor{in[0], weftest.Floats(tensor.Shape{2}, weftest.Values(in[0])[:2]...)}, nil
			}, x)),
		is("an output without, trusted",
			`fault: output "classes" has no batch dimension, so that callers would get each other's answers`,
			answer([]tensor.Spec{y, classes}, constant, x)).with(mode(modelrepo.BatchOn)),
		is("a wrong size of batches",
			`none: output "y" has the shape [1,2] for 2 rows, expected them in dimension 0`,
			answer([]tensor.Spec{y}, func(in []tensor.Tensor) ([]tensor.Tensor, error) {
				return []tensor.Tensor{weftest.Floats(tensor.Shape{1, 2}, weftest.Values(in[0])[:2]...)}, nil
			}, x)).with(func(b *modelrepo.Batching) { b.BatchDim.Outputs = map[string]int{"y": 0} }),
		is("of an input that there is not",
			`fault: model.yaml: batching.unbatched names "z", but the model's inputs are "x"`,
			doubles()).with(func(b *modelrepo.Batching) { b.Unbatched = []string{"z"} }),
		is("of another", `fault: model.yaml: batching.batch_dim.inputs names "z", but the model's inputs are "x"`,
			doubles()).with(func(b *modelrepo.Batching) { b.BatchDim.Inputs = map[string]int{"z": 0} }),
		is("in a dimension that there is not",
			"fault: batching.batch_dim.outputs.y is 2, but the shape is [?,3]; dimensions count from 0",
			doubles()).with(func(b *modelrepo.Batching) {
			b.BatchDim.Outputs = map[string]int{"y": 2}
		}),
		is("in one that is not open",
			"fault: batching.batch_dim.inputs.x is 1, but the shape is [?,3]; rows can only be joined where the size "+
				"is open",
			doubles()).with(func(b *modelrepo.Batching) { b.BatchDim.Inputs = map[string]int{"x": 1} }),
	})
	b := batching()
	b.BatchDim.Inputs = map[string]int{"x": 1}
	_, err := proveFile(t, doubles(), nil, b, &weftest.Log{})
	if e, is := errors.AsType[*catalog.Hidden](err); !is ||
		e.Text != "model.yaml: batching.batch_dim.inputs.x: expected a "+
			"dimension of the shape [?,3] whose size is open, counted from 0" {
		t.Errorf("callers are told %v", e)
	}
}

// TestRuns: which executions a proof makes, which warms the model up.
func TestRuns(t *testing.T) {
	runs := func(e *weftest.Engine, graph []byte, change ...func(*modelrepo.Batching)) []int {
		b := batching()
		for _, c := range change {
			c(b)
		}
		if _, err := proveFile(t, e, graph, b, &weftest.Log{}); err != nil {
			t.Fatal(err)
		}
		return e.Forget()
	}
	of := func(sizes ...int) (all []int) { // each four times
		for _, size := range sizes {
			all = append(all, size, size, size, size)
		}
		return all
	}
	all := runs(doubles(), nil, most(8))
	for size := 1; size <= 8; size++ {
		if !slices.Contains(all, size) {
			t.Errorf("no batch of %d rows was run", size)
		}
	}
	if want := of(1, 1, 2, 4, 8); slices.Max(all) > 8 || !slices.Equal(all[:len(want)], want) {
		t.Errorf("by examples: %v, want %v first, and none above 8", all, want)
	}
	if got, want := runs(doubles(), doubling(), most(8)), of(1, 1, 2, 4, 8); !slices.Equal(got, want) {
		t.Errorf("by structure: %v, want %v", got, want)
	}
	if got, want := runs(fixed(2), nil), of(2); !slices.Equal(got, want) {
		t.Errorf("of a fixed batch: %v, want %v", got, want)
	}
	if got, want := runs(perRow(doubles(), time.Millisecond), nil, within(time.Microsecond)), append(of(1), 2, 2, 3,
		3); !slices.Equal(got, want) {
		t.Errorf("of dear rows: %v, want %v", got, want)
	}
	if got := runs(perRow(doubles(), time.Millisecond), nil, within(8*time.Millisecond),
		mode(modelrepo.BatchOn)); slices.Max(got) != 16 {
		t.Errorf("batches beyond the budget: %v", got)
	}
	two := weftest.PerRow(2, weftest.Double) // that gives up on rows, which changes the shapes that costs are kept by
	two.Declared.Inputs = append(two.Declared.Inputs, weftest.Spec("more", tensor.Float32, tensor.Unknown, 2))
	answer := two.Answer
	two.Answer = func(b *tensor.Batch) error {
		if len(b.Inputs[0].Data) > 8 {
			b.Inputs[0].Data[3] ^= 0x80
		}
		return answer(b)
	}
	if got, want := runs(two, nil), of(1); !slices.Equal(got[len(got)-4:], want) {
		t.Errorf("of rows that are none: %v, want %v last", got, want)
	}
	largest := 0
	images := &weftest.Engine{
		Declared: tensor.Signature{
			Inputs: []tensor.Spec{weftest.Spec("image", tensor.Float32, tensor.Unknown, tensor.Unknown, tensor.Unknown,
				tensor.Unknown)},
			Outputs: []tensor.Spec{weftest.Spec("y", tensor.Float32, tensor.Unknown)},
		},
		Answer: func(b *tensor.Batch) error {
			largest = max(largest, len(b.Inputs[0].Data))
			return errOther
		},
	}
	if runs(images, nil); largest < 64<<10 || largest > 32<<20 {
		t.Errorf("the largest image that was tried has %d bytes", largest)
	}
}

// TestMates: rows change places and mates from run to run, and a batch with most padding is run.
func TestMates(t *testing.T) {
	// by size: the first two rows, and the most equal ones at the end
	front, repeated := map[int]map[[2]float32]bool{}, map[int]int{}
	e := over(func(rows [][]float32) {
		n, same := len(rows), 1
		for same < n && slices.Equal(rows[n-1-same], rows[n-1]) {
			same++
		}
		if n > 1 && !slices.Equal(rows[0], []float32{0, 0, 0}) {
			repeated[n] = max(repeated[n], same)
			if front[n] == nil {
				front[n] = map[[2]float32]bool{}
			}
			front[n][[2]float32{rows[0][0], rows[1][0]}] = true
		}
	})
	prove(t, e, batching(), &weftest.Log{})
	for _, size := range []int{2, 4, 8, 16, 32, 64} {
		if len(front[size]) < 2 {
			t.Errorf("every batch of %d rows had the same rows in front", size)
		}
	}
	clear(repeated)
	b := batching()
	b.AllowedBatchSizes = []int{3, 8}
	prove(t, e, b, &weftest.Log{})
	if len(repeated) != 2 || repeated[3] != 3 || repeated[8] < 5 {
		t.Errorf("equal rows at the end, by size: %v, want 3 of 3 and at least 5 of 8, and no other sizes", repeated)
	}
}

// TestMeasuredSizes: where the manifest leaves the size of batches to what is measured, larger ones than need be are
// not proven, and a manifest that asks for them wants another proof.
func TestMeasuredSizes(t *testing.T) {
	measured := proof.Verdict{Batched: true, Most: 128, Useful: 64}
	for _, c := range []struct {
		from, to int
		covers   bool
		most     int
	}{
		{0, 0, true, 64},
		{0, 100, true, 100},
		{0, 128, true, 128},
		{0, 200, false, 128},
		{128, 0, true, 64},
		{128, 100, true, 100},
	} {
		from, to := modelrepo.Batching{MaxBatchSize: c.from}, modelrepo.Batching{MaxBatchSize: c.to}
		if got := measured.Covers(&from, &to); got != c.covers {
			t.Errorf("a proof of up to %d rows covers up to %d: %v", c.from, c.to, got)
		}
		if got := measured.Under(&to).Most; got != c.most {
			t.Errorf("where a manifest says %d rows there are %d, want %d", c.to, got, c.most)
		}
	}
	if got := (proof.Verdict{Batched: true, Most: 256}).Under(&modelrepo.Batching{}).Most; got != 64 {
		t.Errorf("where nothing was measured there are %d rows, want the usual 64", got)
	}
}

// TestOtherSizes: which sizes of a changed manifest a proof has seen, and how a version is served under it.
func TestOtherSizes(t *testing.T) {
	every, some := proof.Verdict{Batched: true, Most: 16}, proof.Verdict{Batched: true, Most: 8, Allowed: []int{2, 4, 8}}
	for _, c := range []struct {
		v        proof.Verdict
		from, to []int
		covers   bool
		most     int
		allowed  []int
	}{
		{every, nil, nil, true, 12, nil},
		{every, nil, []int{4, 8}, true, 8, []int{4, 8}},
		{every, nil, []int{4, 64}, true, 4, []int{4}},
		{every, nil, []int{17, 64}, false, 12, nil},
		{some, []int{2, 4, 8}, []int{2, 4, 8}, true, 8, []int{2, 4, 8}},
		{some, []int{2, 4, 8, 16}, []int{4, 16}, true, 4, []int{4}},
		{some, []int{2, 4, 8}, []int{3, 4}, false, 4, []int{4}},
		{some, []int{2, 4, 8}, []int{4, 5}, false, 4, []int{4}},
		{some, []int{2, 4, 8}, nil, false, 8, nil},
		{proof.Verdict{}, nil, []int{4}, true, 0, nil},
	} {
		from, to := modelrepo.Batching{MaxBatchSize: 12, AllowedBatchSizes: c.from}, modelrepo.Batching{
			MaxBatchSize: 12, AllowedBatchSizes: c.to,
		}
		if got := c.v.Covers(&from, &to); got != c.covers {
			t.Errorf("%+v covers %v of %v: %v", c.v, c.to, c.from, got)
		}
		if got := c.v.Under(&to); got.Most != c.most ||
			!slices.Equal(got.Allowed, c.allowed) {
			t.Errorf("%+v under %v: up to %d of %v", c.v, c.to, got.Most, got.Allowed)
		}
	}
}
