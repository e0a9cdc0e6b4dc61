package execution

import (
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/weftserve/weft/internal/weftest"
	"github.com/weftserve/weft/runtime/catalog"
	"github.com/weftserve/weft/runtime/engine"
	"github.com/weftserve/weft/runtime/tensor"
	"github.com/weftserve/weft/sharedsched"
)

// copying is a model whose outputs are its inputs: of several types, with rows in the first or the second dimension, or
// none, and with a length that may be filled up.
func copying(rng *rand.Rand, lengths bool) (*weftest.Engine, *Plan) {
	s := &tensor.Signature{}
	var trims []tensor.Trim
	for i := range 1 + rng.IntN(4) {
		spec := weftest.Spec(fmt.Sprint("x", i), []tensor.DType{tensor.Float32, tensor.String, tensor.Int64}[rng.IntN(3)],
			tensor.Unknown, 2)
		switch kind := rng.IntN(4); {
		case i == 0 && lengths:
			spec.Shape[1] = tensor.Unknown
			spec.BatchDim = 0
			pad := make([]byte, max(4, spec.DType.Size())) // an empty text is as long as a number
			spec.Variable = &tensor.Variable{Dim: 1, Most: 6, Buckets: []int64{3, 6}, Pad: pad[:max(spec.DType.Size(), 4)]}
			trims = append(trims, tensor.Trim{Output: 0, Dim: 1, Input: 0})
		case i == 0 || kind < 2:
			spec.BatchDim = 0
		case kind == 2:
			spec.Shape = tensor.Shape{3, tensor.Unknown, 2}
			spec.BatchDim = 1
		default:
			spec.Shape = tensor.Shape{2}
		}
		s.Inputs = append(s.Inputs, spec)
		spec.Variable = nil
		s.Outputs = append(s.Outputs, spec)
	}
	declared := s.Clone()
	e := &weftest.Engine{Declared: *declared, Answer: func(b *tensor.Batch) error {
		for i, in := range b.Inputs {
			copy(b.Output(i, in.DType, in.Shape, len(in.Data)), in.Data)
		}
		return nil
	}}
	p := NewPlan(s, 0)
	p.Batched, p.Most, p.Trims = true, 8, trims
	return e, p
}

// made makes up a request of so many rows for a model, all of the same value for inputs without rows.
func made(rng *rand.Rand, s *tensor.Signature, rows int) (inputs []tensor.Tensor) {
	for i := range s.Inputs {
		in := &s.Inputs[i]
		x := tensor.Tensor{DType: in.DType, Shape: slices.Clone(in.Shape)}
		for d, size := range x.Shape {
			switch {
			case d == in.BatchDim:
				x.Shape[d] = int64(rows)
			case size == tensor.Unknown:
				x.Shape[d] = 1 + rng.Int64N(6)
			}
		}
		n, _ := x.Shape.Elements()
		for range n {
			v := rng.IntN(1000)
			if in.BatchDim == tensor.NoBatch {
				v = 7
			}
			if in.DType == tensor.String {
				x.Data = tensor.AppendString(x.Data, []byte(strings.Repeat("é", v%5)+strconv.Itoa(v)))
			} else {
				e, _ := tensor.ParseElement(in.DType, strconv.Itoa(v))
				x.Data = append(x.Data, e...)
			}
		}
		inputs = append(inputs, x)
	}
	return inputs
}

// TestAnswers: of whatever shape, however they are joined, split and filled up, requests get the answers to their own
// rows, in memory of their own, and their inputs stay as they are.
func TestAnswers(t *testing.T) {
	for seed := range uint64(200) {
		rng := rand.New(rand.NewPCG(seed, 4))
		e, p := copying(rng, rng.IntN(2) == 0)
		if rng.IntN(2) == 0 {
			p.Allowed = []int{3, 8}
		}
		u := &Unit{
			Model:   "m",
			Version: 1,
			Loaded:  Load(engine.Opened{Session: e}),
			Owner:   &owner{},
			Log:     slog.New(slog.DiscardHandler),
		}
		u.Follow(p)
		var jobs []*Job
		var before [][]tensor.Tensor
		keys := map[string][]sharedsched.Span{} // that wait
		execute := func(spans []sharedsched.Span) {
			b := &sharedsched.Batch{Spans: spans}
			for _, s := range spans {
				b.Rows += s.Rows
			}
			b.Padded = p.Padded(b.Rows)
			Execute(b)
			for _, s := range b.Spans {
				if s.Err != nil {
					t.Fatalf("seed %d: %v", seed, s.Err)
				}
			}
		}
		for range 20 {
			j := &Job{Unit: u, Rows: 1 + rng.IntN(12), Task: sharedsched.Task{}}
			j.Inputs = made(rng, p.Signature, j.Rows)
			if rng.IntN(2) == 0 {
				j.Wanted = rng.Perm(len(p.Signature.Outputs))[:1+rng.IntN(len(p.Signature.Outputs))]
			}
			jobs = append(jobs, j)
			kept := make([]tensor.Tensor, len(j.Inputs))
			for i := range kept {
				kept[i] = j.Inputs[i].Clone()
			}
			before = append(before, kept)
			key, _ := p.Keys(j.Inputs)
			for first := 0; first < j.Rows; {
				room := p.Most
				for _, s := range keys[key] {
					room -= s.Rows
				}
				n := min(j.Rows-first, room)
				keys[key] = append(keys[key], sharedsched.Span{Payload: j, First: first, Rows: n})
				if first += n; n == room || rng.IntN(3) == 0 {
					execute(keys[key])
					keys[key] = nil
				}
			}
		}
		for _, rest := range keys {
			if len(rest) > 0 {
				execute(rest)
			}
		}
		for k, j := range jobs {
			outputs, err := j.Join()
			if err != nil {
				t.Fatalf("seed %d: %v", seed, err)
			}
			for i, got := range outputs {
				if want := before[k][j.Output(i)]; got.DType != want.DType || !slices.Equal(got.Shape, want.Shape) ||
					!slices.Equal(got.Data, want.Data) {
					t.Fatalf("seed %d, request %d of %d rows: output %d is %v, want %v", seed, k, j.Rows, j.Output(i), got, want)
				}
			}
			for i, in := range j.Inputs {
				if !slices.Equal(in.Data, before[k][i].Data) {
					t.Fatalf("seed %d: input %d was changed", seed, i)
				}
			}
			if size := j.SizeOf(j.Rows - 1); size < 1 || size > 8 || p.Allowed != nil && size != 3 && size != 8 ||
				j.Split() != (len(j.pieces) > 1) {
				t.Errorf("seed %d: a row was answered in an execution of %d", seed, size)
			}
		}
		for _, size := range e.Forget() {
			if p.Allowed != nil && p.Signature.Inputs[0].BatchDim == 0 && size != 3 && size != 8 {
				t.Errorf("seed %d: a run of %d rows", seed, size)
			}
		}
	}
}

// TestKeys: requests may share an execution if their open dimensions, as they are filled up, and their values without
// rows are equal; whatever is asked for. Their shapes decide what they cost.
func TestKeys(t *testing.T) {
	s := &tensor.Signature{Inputs: []tensor.Spec{
		weftest.Spec("x", tensor.Float32, tensor.Unknown, tensor.Unknown), weftest.Spec("k", tensor.Float32),
	}}
	s.Inputs[0].BatchDim = 0
	call := func(rows, length int64, k float32) []tensor.Tensor {
		return []tensor.Tensor{
			weftest.Floats(tensor.Shape{rows, length}, make([]float32, rows*length)...), weftest.Floats(tensor.Shape{}, k),
		}
	}
	padded := s.Clone()
	padded.Inputs[0].Variable = &tensor.Variable{Dim: 1, Most: 4, Buckets: []int64{4}}
	for name, c := range map[string]struct {
		s          *tensor.Signature
		batched    bool
		a, b       []tensor.Tensor
		key, shape bool // are the same
	}{
		"other rows":            {s, true, call(1, 3, 1), call(2, 3, 1), true, true},
		"another length":        {s, true, call(1, 3, 1), call(1, 4, 1), false, false},
		"another value":         {s, true, call(1, 3, 1), call(1, 3, 2), false, true},
		"a length in a bucket":  {padded, true, call(1, 3, 1), call(1, 4, 1), true, true},
		"another value, alone":  {s, false, call(1, 3, 1), call(1, 3, 2), true, true},
		"another length, alone": {s, false, call(1, 3, 1), call(1, 4, 1), false, false},
	} {
		p := NewPlan(c.s, 0)
		p.Batched = c.batched
		key, shape := p.Keys(c.a)
		otherKey, otherShape := p.Keys(c.b)
		if (key == otherKey) != c.key || (shape == otherShape) != c.shape {
			t.Errorf("%s: keys %q and %q, of shapes %q and %q", name, key, otherKey, shape, otherShape)
		}
	}
}

// TestPartsThatDoNotFitTogether: the outputs of a request that was split.
func TestPartsThatDoNotFitTogether(t *testing.T) {
	for name, c := range map[string]struct {
		rows   int // the dimension that has them
		answer func(b *tensor.Batch, first bool)
		want   string
	}{
		"another shape": {0, func(b *tensor.Batch, first bool) {
			width := map[bool]int64{true: 1, false: 2}[first]
			b.Output(0, tensor.Uint8, tensor.Shape{2, width}, int(2*width))
		}, "rows 2 to 3 give the shape [2,2], the first 2 rows [2,1]"},
		"another type": {0, func(b *tensor.Batch, first bool) {
			b.Output(0, map[bool]tensor.DType{true: tensor.Uint8, false: tensor.Int8}[first], tensor.Shape{2}, 2)
		}, "rows 2 to 3 give elements of the type int8, the first 2 rows uint8"},
		"another value": {tensor.NoBatch, func(b *tensor.Batch, first bool) {
			b.Output(0, tensor.Uint8, tensor.Shape{1}, 1)[0] = map[bool]byte{true: 1, false: 2}[first]
		}, "it has no batch dimension and rows 2 to 3 give another value than the first"},
	} {
		u, _ := batched(func(b *tensor.Batch) error {
			c.answer(b, b.Inputs[0].Data[0] == 'a')
			return nil
		})
		p := *u.Plan()
		p.Signature = p.Signature.Clone()
		p.Signature.Outputs[0].BatchDim = c.rows
		u.Follow(&p)
		j := &Job{
			Unit:   u,
			Rows:   4,
			Inputs: []tensor.Tensor{{DType: tensor.Uint8, Shape: tensor.Shape{4}, Data: []byte("abcd")}},
		}
		for _, first := range []int{2, 0} { // in any order
			Execute(&sharedsched.Batch{Rows: 2, Padded: 2, Spans: []sharedsched.Span{{Payload: j, First: first, Rows: 2}}})
		}
		want := `the request of 4 rows was split over 2 executions and output "y" cannot be joined: ` + c.want
		if _, err := j.Join(); err == nil || !strings.HasSuffix(err.Error(), want) {
			t.Errorf("%s: %v, want %s", name, err, want)
		}
	}
}

// TestADissolvedPlan: a batch that was formed before, and the rest of a request that was split, end as they began.
// Other requests run as they came.
func TestADissolvedPlan(t *testing.T) {
	u, _, sizes, _ := watched(echo)
	p := *u.Plan()
	p.Allowed = []int{4, 8}
	u.Follow(&p)
	u.Follow(u.Plan().Dissolved(&anyBytes))
	if u.Plan().Batched || !u.Plan().Whole().Batched || u.Plan().Whole().Whole() != u.Plan().Whole() {
		t.Errorf("it follows %+v", u.Plan())
	}
	ended(u, 2, "a", "b")
	x := tensor.Tensor{DType: tensor.Uint8, Shape: tensor.Shape{5}, Data: []byte("abcde")}
	j := &Job{Unit: u, Rows: 5, Inputs: []tensor.Tensor{x}}
	Execute(&sharedsched.Batch{Rows: 1, Padded: 1, Spans: []sharedsched.Span{{Payload: j, First: 4, Rows: 1}}})
	ended(u, 0, "abc")
	if want := []int{4, 4, 3}; !slices.Equal(*sizes, want) {
		t.Errorf("runs of %v rows, want %v", *sizes, want)
	}
}

// TestJoined: which answered calls were run in other company than alone.
func TestJoined(t *testing.T) {
	u, _ := batched(echo)
	x := []tensor.Tensor{{DType: tensor.Uint8, Shape: tensor.Shape{1}, Data: []byte("a")}}
	for _, c := range []struct {
		call    catalog.Call
		outcome sharedsched.Outcome
		want    bool
	}{
		{catalog.Call{Rows: 1, Inputs: x}, sharedsched.Outcome{BatchRequests: 1, Executions: 1}, false},
		{catalog.Call{Rows: 1, Inputs: x}, sharedsched.Outcome{BatchRequests: 2, Executions: 1}, true},
		{catalog.Call{Rows: 1, Inputs: x}, sharedsched.Outcome{BatchRequests: 1, Executions: 1, PaddedRows: 1}, true},
		{catalog.Call{Rows: 2, Inputs: x}, sharedsched.Outcome{BatchRequests: 1, Executions: 2}, true},
		{catalog.Call{Rows: 0, Inputs: x}, sharedsched.Outcome{BatchRequests: 2, Executions: 1}, false},
		{catalog.Call{Rows: 1, Inputs: append(x, x...)}, sharedsched.Outcome{BatchRequests: 2, Executions: 1}, false},
	} {
		if c.call.Outcome = c.outcome; u.Plan().Joined(&c.call) != c.want {
			t.Errorf("%d rows, %+v: not %v", c.call.Rows, c.outcome, c.want)
		}
	}
}
