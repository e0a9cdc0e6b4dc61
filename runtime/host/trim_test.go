package host_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/weftserve/weft/internal/config"
	"github.com/weftserve/weft/runtime/catalog"
	"github.com/weftserve/weft/runtime/modelrepo"
	"github.com/weftserve/weft/runtime/tensor"
)

// TestOneBatchOfSeveralLengths looks at the execution itself: the padding is where the lengths differ and nowhere else.
func TestOneBatchOfSeveralLengths(t *testing.T) {
	f := eachRow(doubled)
	var seen []tensor.Tensor
	run := f.Answer
	f.Answer = func(b *tensor.Batch) error {
		seen = append(seen, b.Inputs[0].Clone())
		return run(b)
	}
	b := newBench(t, f, func(m *modelrepo.Manifest) {
		m.Batching.VariableDims = map[string]modelrepo.VariableDim{"x": {Axis: 1, Buckets: []int{2, 4}, PadValue: "-1"}}
	})
	seen = nil
	calls := []*catalog.Call{ask(b.v, 1, 1, 2, 3), ask(b.v, 2, 4, 5, 6, 7, 8, 9, 10, 11), ask(b.v, 1, 12, 13, 14)}
	errs, runs := b.together(5, calls)
	if diff := cmp.Diff([]int{5}, runs); diff != "" ||
		slices.ContainsFunc(errs, func(err error) bool { return err != nil }) {
		t.Fatalf("errors %v, rows of runs (-want +got):\n%s", errs, diff)
	}
	want := []float32{1, 2, 3, -1, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, -1, 12, 13, 14, -1}
	if diff := cmp.Diff(want, values(seen[0])); diff != "" {
		t.Errorf("what was executed (-want +got):\n%s", diff)
	}
	for i, want := range []tensor.Tensor{
		floats(tensor.Shape{1, 3}, 2, 4, 6), floats(tensor.Shape{2, 4}, 8, 10, 12, 14, 16, 18, 20, 22),
		floats(tensor.Shape{1, 3}, 24, 26, 28),
	} {
		if diff := cmp.Diff(want, calls[i].Results[0]); diff != "" {
			t.Errorf("call %d (-want +got):\n%s", i, diff)
		}
	}
}

// translator is source [?, ?], target [?, ?] → scores [?, target, source], source·target for each pair, and sizes [?]
// of source elements that are not zero. With names, the dimensions are called by them.
func translator(dims ...string) *fake {
	f := &fake{
		Declared: tensor.Signature{
			Inputs: []tensor.Spec{
				spec("source", tensor.Float32, tensor.Unknown, tensor.Unknown),
				spec("target", tensor.Float32, tensor.Unknown, tensor.Unknown),
			},
			Outputs: []tensor.Spec{
				spec("scores", tensor.Float32, tensor.Unknown, tensor.Unknown, tensor.Unknown),
				spec("sizes", tensor.Float32, tensor.Unknown),
			},
		},
		Answer: func(b *tensor.Batch) error {
			n, s, t := b.Inputs[0].Shape[0], b.Inputs[0].Shape[1], b.Inputs[1].Shape[1]
			source, target := values(b.Inputs[0]), values(b.Inputs[1])
			if int64(len(target)) != n*t {
				return fmt.Errorf("shapes %v and %v", b.Inputs[0].Shape, b.Inputs[1].Shape)
			}
			var scores, sizes []float32
			for i := range n {
				size := float32(0)
				for k := range s {
					if source[i*s+k] != 0 {
						size++
					}
				}
				sizes = append(sizes, size)
				for j := range t {
					for k := range s {
						scores = append(scores, target[i*t+j]*source[i*s+k])
					}
				}
			}
			for o, y := range []tensor.Tensor{
				floats(tensor.Shape{n, t, s}, scores...),
				floats(tensor.Shape{n}, sizes...),
			} {
				copy(b.Output(o, y.DType, y.Shape, len(y.Data)), y.Data)
			}
			return nil
		},
	}
	if dims != nil {
		f.Declared.Inputs[0].DimNames, f.Declared.Inputs[1].DimNames = []string{"n", dims[0]}, []string{"n", dims[1]}
		f.Declared.Outputs[0].DimNames = []string{"n", dims[1], dims[0]}
	}
	return f
}

// TestTwoLengths: an output is cut back along each of two lengths. Where names say nothing, the model's results do.
func TestTwoLengths(t *testing.T) {
	for _, test := range []struct {
		name  string
		dims  []string
		mode  modelrepo.BatchMode
		picky bool // takes nothing made up
	}{
		{"without names", nil, modelrepo.BatchAuto, false},
		{"with names", []string{"s", "t"}, modelrepo.BatchAuto, false},
		{"without names or proof", nil, modelrepo.BatchOn, false},
		{"with names alone", []string{"s", "t"}, modelrepo.BatchOn, true},
	} {
		t.Run(test.name, func(t *testing.T) {
			f := translator(test.dims...)
			run, loading := f.Answer, true
			f.Answer = func(b *tensor.Batch) error {
				if test.picky && loading {
					return errors.New("not for me")
				}
				return run(b)
			}
			b := newBench(t, f, func(m *modelrepo.Manifest) {
				m.Batching.Mode = test.mode
				m.Batching.VariableDims = map[string]modelrepo.VariableDim{
					"source": {Axis: 1, Buckets: []int{4, 8, 12}}, "target": {Axis: 1, Buckets: []int{3, 9}},
				}
			})
			loading = false
			if b.v.Signature.Inputs[0].Variable.Buckets == nil {
				t.Fatal(b.v.Batching.Reason)
			}
			call := func(s, t int64, values ...float32) *catalog.Call {
				return &catalog.Call{Version: b.v, Rows: 1, Inputs: []tensor.Tensor{
					floats(tensor.Shape{1, s}, values[:s]...), floats(tensor.Shape{1, t}, values[s:]...),
				}}
			}
			calls := []*catalog.Call{call(1, 2, 3, 5, 7), call(3, 1, 1, 2, 4, 10)}
			if errs, _ := b.together(0, calls); errs[0] != nil || errs[1] != nil {
				t.Fatal(errs)
			}
			want := [][]tensor.Tensor{
				{floats(tensor.Shape{1, 2, 1}, 15, 21), floats(tensor.Shape{1}, 1)},
				{floats(tensor.Shape{1, 1, 3}, 10, 20, 40), floats(tensor.Shape{1}, 3)},
			}
			for i := range calls {
				if diff := cmp.Diff(want[i], calls[i].Results); diff != "" {
					t.Errorf("call %d (-want +got):\n%s", i, diff)
				}
			}
			notes := []string{
				`input "source" takes 1 to 12 elements in dimension 1, padded to 4, 8, 12`,
				`input "target" takes 1 to 9 elements in dimension 1, padded to 3, 9`,
				`output "scores" is cut back in dimension 1 to the length of input "target"`,
				`output "scores" is cut back in dimension 2 to the length of input "source"`,
			}
			if test.dims == nil {
				notes = slices.Insert(notes, 0, "all inputs with rows are taken to have equally many, although "+
					"nothing says so of \"source\", \"target\": "+
					"name an input that has none in batching.unbatched")
			}
			if diff := cmp.Diff(notes, b.v.Signature.Notes); diff != "" {
				t.Errorf("notes (-want +got):\n%s", diff)
			}
		})
	}
}

// TestLengthsBeforeTheRows has the length in dimension 0 and the rows in dimension 1, as the manifest says.
func TestLengthsBeforeTheRows(t *testing.T) {
	f := &fake{
		Declared: tensor.Signature{
			Inputs:  []tensor.Spec{spec("x", tensor.Float32, tensor.Unknown, tensor.Unknown, 2)},
			Outputs: []tensor.Spec{spec("y", tensor.Float32, tensor.Unknown, tensor.Unknown, 2)},
		},
		Answer: func(b *tensor.Batch) error {
			x := values(b.Inputs[0])
			_ = double(x)
			y := floats(b.Inputs[0].Shape, x...)
			copy(b.Output(0, y.DType, y.Shape, len(y.Data)), y.Data)
			return nil
		},
	}
	b := newBench(t, f, func(m *modelrepo.Manifest) {
		m.Batching.BatchDim = modelrepo.BatchDim{Inputs: map[string]int{"x": 1}, Outputs: map[string]int{"y": 1}}
		m.Batching.VariableDims = map[string]modelrepo.VariableDim{"x": {Axis: 0, Buckets: []int{3}}}
	})
	if b.v.Signature.Inputs[0].Variable.Buckets == nil {
		t.Fatal(b.v.Batching.Reason)
	}
	calls := []*catalog.Call{
		{Rows: 2, Inputs: []tensor.Tensor{floats(tensor.Shape{1, 2, 2}, 1, 2, 3, 4)}},
		{Rows: 1, Inputs: []tensor.Tensor{floats(tensor.Shape{2, 1, 2}, 5, 6, 7, 8)}},
	}
	if errs, _ := b.together(0, calls); errs[0] != nil || errs[1] != nil {
		t.Fatal(errs)
	}
	for i, want := range []tensor.Tensor{
		floats(tensor.Shape{1, 2, 2}, 2, 4, 6, 8),
		floats(tensor.Shape{2, 1, 2}, 10, 12, 14, 16),
	} {
		if diff := cmp.Diff(want, calls[i].Results[0]); diff != "" {
			t.Errorf("call %d (-want +got):\n%s", i, diff)
		}
	}
}

// TestMasksAreMadeUpOfOnes: a mean over the elements that the mask lets through cannot be proven with masks of random
// numbers.
func TestMasksAreMadeUpOfOnes(t *testing.T) {
	for pad, inverted := range map[config.Scalar]bool{"": false, "true": true} {
		f := eachRow(doubled)
		f.Declared.Inputs = append(f.Declared.Inputs,
			spec("Padding_Mask", tensor.Bool, tensor.Unknown, tensor.Unknown))
		f.Answer = func(b *tensor.Batch) error {
			x, length := values(b.Inputs[0]), int(b.Inputs[0].Shape[1])
			if !slices.Equal(b.Inputs[0].Shape, b.Inputs[1].Shape) {
				return fmt.Errorf("shapes %v and %v", b.Inputs[0].Shape, b.Inputs[1].Shape)
			}
			out := make([]float32, b.Inputs[0].Shape[0])
			for i := range out {
				n := float32(0)
				for k := range length {
					if (b.Inputs[1].Data[i*length+k] == 1) != inverted {
						out[i], n = out[i]+x[i*length+k], n+1
					}
				}
				out[i] /= max(n, 1)
				if n == 0 {
					out[i] = mean(x[i*length:][:length])[0]
				}
			}
			y := floats(tensor.Shape{int64(len(out)), 1}, out...)
			copy(b.Output(0, y.DType, y.Shape, len(y.Data)), y.Data)
			return nil
		}
		w := newWorld(t, 1)
		w.add("m", 1, f, func(m *modelrepo.Manifest) {
			m.Batching.VariableDims = map[string]modelrepo.VariableDim{
				"x": {Axis: 1, Buckets: []int{4, 8}}, "Padding_Mask": {Axis: 1, Buckets: []int{4, 8}, PadValue: pad},
			}
		})
		v := w.load("m")
		if v.State != catalog.Ready || v.Signature.Inputs[0].Variable.Buckets == nil {
			t.Errorf("padded with %q: %s%s", pad, v.Cause, v.Batching.Reason)
		}
		// The mask must be as long as the input that it masks, although padding would make it so.
		_, err := v.Signature.Rows(
			[]tensor.Tensor{
				floats(tensor.Shape{1, 3}, 1, 2, 3),
				{DType: tensor.Bool, Shape: tensor.Shape{1, 2}, Data: []byte{1, 1}},
			})
		if err == nil {
			t.Error("a mask of 2 elements beside 3 was accepted")
		}
	}
}

// TestStringsOfSeveralLengths pads with a word.
func TestStringsOfSeveralLengths(t *testing.T) {
	f := &fake{
		Declared: tensor.Signature{
			Inputs:  []tensor.Spec{spec("in", tensor.String, tensor.Unknown, tensor.Unknown)},
			Outputs: []tensor.Spec{spec("out", tensor.String, tensor.Unknown, tensor.Unknown)},
		},
		Answer: func(b *tensor.Batch) error {
			all := texts(b.Inputs[0])
			for i := range all {
				all[i] += all[i]
			}
			out := words(b.Inputs[0].Shape, all...)
			copy(b.Output(0, out.DType, out.Shape, len(out.Data)), out.Data)
			return nil
		},
	}
	b := newBench(t, f, func(m *modelrepo.Manifest) {
		m.Batching.VariableDims = map[string]modelrepo.VariableDim{"in": {
			Axis: 1, Buckets: []int{3},
			PadValue: "[PAD]",
		}}
	})
	if b.v.Signature.Inputs[0].Variable.Buckets == nil {
		t.Fatal(b.v.Batching.Reason)
	}
	calls := []*catalog.Call{
		{Rows: 2, Inputs: []tensor.Tensor{words(tensor.Shape{2, 1}, "a", "bc")}},
		{Rows: 1, Inputs: []tensor.Tensor{words(tensor.Shape{1, 3}, "", "d", "")}},
	}
	if errs, _ := b.together(0, calls); errs[0] != nil || errs[1] != nil {
		t.Fatal(errs)
	}
	for i, want := range []tensor.Tensor{
		words(tensor.Shape{2, 1}, "aa", "bcbc"),
		words(tensor.Shape{1, 3}, "", "dd", ""),
	} {
		if diff := cmp.Diff(want, calls[i].Results[0]); diff != "" {
			t.Errorf("call %d (-want +got):\n%s", i, diff)
		}
	}
}
