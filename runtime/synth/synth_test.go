package synth_test

import (
	"math"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/weftserve/weft/internal/weftest"
	"github.com/weftserve/weft/runtime/synth"
	"github.com/weftserve/weft/runtime/tensor"
)

func open(t *testing.T, o synth.Options) *synth.Session {
	t.Helper()
	s, err := synth.Open(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

var floats = weftest.Floats

func batch(t *testing.T, s *synth.Session, inputs ...tensor.Tensor) *tensor.Batch {
	t.Helper()
	b := tensor.NewBatch(len(inputs), len(s.Signature().Outputs), nil)
	t.Cleanup(b.Free)
	for i, in := range inputs {
		copy(b.Input(i, in.DType, in.Shape, len(in.Data)), in.Data)
	}
	return b
}

func answer(t *testing.T, s *synth.Session, inputs ...tensor.Tensor) []tensor.Tensor {
	t.Helper()
	out, err := s.Answer(inputs...)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func TestDefaultModelAnswersEachRowAlone(t *testing.T) {
	s := open(t, synth.Options{Seed: 7})
	rows := []tensor.Tensor{
		floats(tensor.Shape{1, 4}, 1, 2, 3, 4), floats(tensor.Shape{1, 4}, 5, 6, 7, 8),
		floats(tensor.Shape{1, 4}, 1, 2, 3, 5),
	}
	all := tensor.Tensor{DType: tensor.Float32, Shape: tensor.Shape{3, 4}}
	want := tensor.Tensor{DType: tensor.Float32, Shape: tensor.Shape{3, 4}}
	seen := map[string]bool{}
	for _, row := range rows {
		all.Data = append(all.Data, row.Data...)
		data := answer(t, s, row)[0].Data
		want.Data = append(want.Data, data...)
		seen[string(data)] = true
	}
	if len(seen) != len(rows) {
		t.Error("different rows have the same answer")
	}
	b := batch(t, s, all)
	if err := s.Run(t.Context(), b); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]tensor.Tensor{want}, b.Outputs); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	other := open(t, synth.Options{Seed: 8})
	if diff := cmp.Diff(want, answer(t, other, all)[0]); diff == "" {
		t.Error("models of different seeds have the same answer")
	}
}

func sample(d tensor.DType, shape tensor.Shape) tensor.Tensor {
	v := tensor.Tensor{DType: d, Shape: shape}
	n, _ := shape.Elements()
	for i := range n {
		if d == tensor.String {
			v.Data = tensor.AppendString(v.Data, []byte(strings.Repeat("s", int(i))))
			continue
		}
		element := make([]byte, d.Size())
		element[0] = byte(i)
		v.Data = append(v.Data, element...)
	}
	return v
}

// Every type as input and output, rows counted by the first and by a later dimension, and inputs that have no rows.
func TestRowsOfEachTypeAreIndependent(t *testing.T) {
	for d := tensor.Bool; d <= tensor.String; d++ {
		t.Run(d.String(), func(t *testing.T) {
			s := open(t, synth.Options{
				Inputs: []tensor.Spec{
					{Name: "a", DType: d, Shape: tensor.Shape{-1, 3}},
					{Name: "state", DType: d, Shape: tensor.Shape{2, -1, 2}},
					{Name: "rate", DType: d, Shape: tensor.Shape{}},
					{Name: "words", DType: d, Shape: tensor.Shape{-1, -1}},
				},
				Outputs: []tensor.Spec{
					{Name: "y", DType: d, Shape: tensor.Shape{-1, 40}},
					{Name: "state", DType: d, Shape: tensor.Shape{3, -1, 2}},
					{Name: "count", DType: d, Shape: tensor.Shape{}},
				},
			})
			all := []tensor.Tensor{
				sample(d, tensor.Shape{3, 3}), sample(d, tensor.Shape{2, 3, 2}), sample(d, tensor.Shape{}),
				sample(d, tensor.Shape{3, 2}),
			}
			b := batch(t, s, all...)
			if err := s.Run(t.Context(), b); err != nil {
				t.Fatal(err)
			}
			for i, out := range b.Outputs {
				if err := out.Check(); err != nil {
					t.Fatalf("output %d: %v", i, err)
				}
			}
			if string(b.Outputs[0].Row(0, 0).Data) == string(b.Outputs[0].Row(0, 2).Data) && d != tensor.Bool {
				t.Error("different rows have the same answer")
			}
			// 2 of the row's 6 elements stand together.
			if state := b.Outputs[1].Row(1, 0).Data; d != tensor.Bool &&
				string(state[:len(state)/3]) == string(state[len(state)/3:len(state)/3*2]) {
				t.Error("a row's elements repeat")
			}
			for r := range 3 {
				alone := answer(t, s, all[0].Row(0, r), all[1].Row(1, r), all[2], all[3].Row(0, r))
				together := []tensor.Tensor{b.Outputs[0].Row(0, r), b.Outputs[1].Row(1, r), b.Outputs[2]}
				if diff := cmp.Diff(alone, together, cmpopts.EquateEmpty()); diff != "" {
					t.Errorf("row %d (-alone +in the batch)\n%s", r, diff)
				}
			}
			if d.IsFloat() {
				for i, out := range b.Outputs {
					if v := out.Number(0); math.Abs(v) < 1 || math.Abs(v) >= 2 {
						t.Errorf("output %d begins with %v, want a number of magnitude 1 to 2", i, v)
					}
				}
			}
		})
	}
}

func TestLatencyCurve(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := open(t, synth.Options{Base: 20 * time.Millisecond, PerRow: time.Millisecond})
		for _, rows := range []int64{1, 8, 64} {
			b := batch(t, s, floats(tensor.Shape{rows, 4}, make([]float32, rows*4)...))
			start := time.Now()
			if err := s.Run(t.Context(), b); err != nil {
				t.Fatal(err)
			}
			if got, want := time.Since(start), time.Duration(20+rows)*time.Millisecond; got != want {
				t.Errorf("%d rows took %v, want %v", rows, got, want)
			}
		}
	})
}

func TestJitterIsBoundedAndRepeats(t *testing.T) {
	durations := func(t *testing.T, seed uint64) (took []time.Duration) {
		synctest.Test(t, func(t *testing.T) {
			s := open(t, synth.Options{Base: time.Second, Jitter: 0.1, Seed: seed})
			b := batch(t, s, floats(tensor.Shape{1, 4}, 1, 2, 3, 4))
			for range 50 {
				start := time.Now()
				if err := s.Run(t.Context(), b); err != nil {
					t.Fatal(err)
				}
				took = append(took, time.Since(start))
			}
		})
		return took
	}
	first := durations(t, 1)
	shortest, longest := first[0], first[0]
	for _, d := range first {
		shortest, longest = min(shortest, d), max(longest, d)
	}
	if shortest < 900*time.Millisecond || longest > 1100*time.Millisecond || longest-shortest < 100*time.Millisecond {
		t.Errorf("durations from %v to %v, want them spread over 900ms to 1.1s", shortest, longest)
	}
	if diff := cmp.Diff(first, durations(t, 1)); diff != "" {
		t.Errorf("equal seeds differ: %s", diff)
	}
	if diff := cmp.Diff(first, durations(t, 2)); diff == "" {
		t.Error("different seeds do not differ")
	}
}

func TestModelsCompeteForTheirDevice(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		shared := synth.NewDevice()
		a := open(t, synth.Options{Base: 10 * time.Millisecond, Device: shared})
		b := open(t, synth.Options{Base: 30 * time.Millisecond, Device: shared})
		c := open(t, synth.Options{Base: 5 * time.Millisecond})
		start := time.Now()
		var runs sync.WaitGroup
		ended := map[*synth.Session]time.Duration{}
		var mu sync.Mutex
		for _, s := range []*synth.Session{a, b, c} {
			in := batch(t, s, floats(tensor.Shape{1, 4}, 1, 2, 3, 4))
			runs.Go(func() {
				if err := s.Run(t.Context(), in); err != nil {
					t.Error(err)
				}
				mu.Lock()
				defer mu.Unlock()
				ended[s] = time.Since(start)
			})
			synctest.Wait() // so that they come in this order
		}
		runs.Wait()
		want := map[*synth.Session]time.Duration{
			a: 10 * time.Millisecond, b: 40 * time.Millisecond,
			c: 5 * time.Millisecond,
		}
		for s, d := range want {
			if ended[s] != d {
				t.Errorf("a model ended after %v, want %v", ended[s], d)
			}
		}
	})
}

func TestFailEvery(t *testing.T) {
	s := open(t, synth.Options{FailEvery: 3})
	b := batch(t, s, floats(tensor.Shape{1, 4}, 1, 2, 3, 4))
	for run := 1; run <= 9; run++ {
		if err := s.Run(t.Context(), b); (err != nil) != (run%3 == 0) {
			t.Errorf("run %d: got %v", run, err)
		}
	}
}

func TestFailOnNaN(t *testing.T) {
	nan := map[tensor.DType][]byte{
		tensor.Float16:  {0x01, 0xfc},
		tensor.BFloat16: {0x81, 0x7f},
		tensor.Float32:  {0, 0, 0xc0, 0xff},
		tensor.Float64:  {1, 0, 0, 0, 0, 0, 0xf0, 0x7f},
	}
	infinite := map[tensor.DType][]byte{
		tensor.Float16: {0, 0xfc}, tensor.BFloat16: {0x80, 0x7f}, tensor.Float32: {0, 0, 0x80, 0xff},
		tensor.Float64: {0, 0, 0, 0, 0, 0, 0xf0, 0x7f},
	}
	for d, bits := range nan {
		o := synth.Options{FailOnNaN: true, Inputs: []tensor.Spec{{Name: "x", DType: d, Shape: tensor.Shape{-1, 2}}}}
		s := open(t, o)
		good := sample(d, tensor.Shape{2, 2})
		copy(good.Data[3*d.Size():], infinite[d])
		if err := s.Run(t.Context(), batch(t, s, good)); err != nil {
			t.Errorf("%v: an infinity: %v", d, err)
		}
		bad := sample(d, tensor.Shape{2, 2})
		copy(bad.Data[3*d.Size():], bits)
		if err := s.Run(t.Context(), batch(t, s, bad)); err == nil ||
			!strings.Contains(err.Error(), `input "x": element 3`) {
			t.Errorf("%v: got %v, want an error about element 3", d, err)
		}
		o.FailOnNaN = false
		tolerant := open(t, o)
		if err := tolerant.Run(t.Context(), batch(t, tolerant, bad)); err != nil {
			t.Errorf("%v: not asked for: %v", d, err)
		}
	}
}

func TestSignatureLeavesTheBatchToTheHost(t *testing.T) {
	given := []tensor.Spec{{Name: "x", DType: tensor.Int8, Shape: tensor.Shape{-1, 3}}}
	s := open(t, synth.Options{Inputs: given})
	want := &tensor.Signature{
		Inputs: []tensor.Spec{{Name: "x", DType: tensor.Int8, Shape: tensor.Shape{-1, 3}, BatchDim: tensor.NoBatch}},
		Outputs: []tensor.Spec{{
			Name: "y", DType: tensor.Float32, Shape: tensor.Shape{-1, 4},
			BatchDim: tensor.NoBatch,
		}},
	}
	if diff := cmp.Diff(want, s.Signature()); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	if given[0].BatchDim != 0 {
		t.Error("the caller's specification was written to")
	}
}

func TestWrongInputs(t *testing.T) {
	s := open(t, synth.Options{Inputs: []tensor.Spec{
		{Name: "a", DType: tensor.Float32, Shape: tensor.Shape{-1, 1}},
		{Name: "b", DType: tensor.Float32, Shape: tensor.Shape{-1, 1}},
	}})
	one, two := floats(tensor.Shape{1, 1}, 1), floats(tensor.Shape{2, 1}, 1, 2)
	short := floats(tensor.Shape{1, 1}, 1)
	short.Data = short.Data[:3]
	for want, inputs := range map[string][]tensor.Tensor{
		"1 inputs, expected 2":             {one},
		`input "b" has 2 rows`:             {one, two},
		`input "a": expected fp32 [?,1]`:   {sample(tensor.Int8, tensor.Shape{1, 1}), one},
		`input "b": shape [1,1] of fp32 a`: {one, short},
		`input "b": expected fp32 [?,1]`:   {one, floats(tensor.Shape{1, 2}, 1, 2)},
	} {
		if err := s.Run(t.Context(), batch(t, s, inputs...)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
}

func TestWrongOptions(t *testing.T) {
	spec := func(d tensor.DType, shape ...int64) []tensor.Spec {
		return []tensor.Spec{{Name: "z", DType: d, Shape: shape}}
	}
	for want, o := range map[string]synth.Options{
		"base -1ns":                {Base: -1},
		"jitter is 1.5":            {Jitter: 1.5},
		"jitter is NaN":            {Jitter: math.NaN()},
		"fail_every is -2":         {FailEvery: -2},
		`input "z" has no element`: {Inputs: spec(tensor.Invalid, 1)},
		"a dimension is -3":        {Inputs: spec(tensor.Int8, -3)},
		"more than one open":       {Outputs: spec(tensor.Int8, -1, -1)},
		"too many elements":        {Outputs: spec(tensor.Int8, 1<<40, 1<<40)},
	} {
		if _, err := synth.Open(o); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
}
