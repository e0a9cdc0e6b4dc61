package ort_test

import (
	"errors"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/weftserve/weft/internal/onnxgraph"
	"github.com/weftserve/weft/runtime/engine"
	"github.com/weftserve/weft/runtime/ort"
	"github.com/weftserve/weft/runtime/tensor"
)

func TestStrings(t *testing.T) {
	g := onnxgraph.New("strings").Input("x", onnxgraph.String, "n").Input("keep", onnxgraph.Bool, "n").
		Output("same", onnxgraph.String, "n").Output("kept", onnxgraph.String, nil)
	g.Node("Identity", []string{"x"}, []string{"same"})
	g.Node("Compress", []string{"x", "keep"}, []string{"kept"}, onnxgraph.IntAttr("axis", 0))
	s := openGraph(t, g.Marshal())
	x := stringsOf(tensor.Shape{5}, "", "zero\x00byte", "\xff not UTF-8", "漢字", "")
	got := runOnce(t, s, x, bools(tensor.Shape{5}, false, true, true, false, true))
	want := []tensor.Tensor{x, stringsOf(tensor.Shape{3}, "zero\x00byte", "\xff not UTF-8", "")}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

// A batch is reused for runs of other sizes, larger and smaller.
func TestBatchIsReused(t *testing.T) {
	g := onnxgraph.New("neg").Input("x", onnxgraph.Float, "n", 1000).Output("y", onnxgraph.Float, "n", 1000)
	s := openGraph(t, g.Node("Neg", []string{"x"}, []string{"y"}).Marshal())
	b := batchOf(t, s)
	for _, rows := range []int64{1, 5, 2, 40, 3} {
		in, want := make([]float32, rows*1000), make([]float32, rows*1000)
		for i := range in {
			in[i], want[i] = float32(i), -float32(i)
		}
		fill(b, floats(tensor.Shape{rows, 1000}, in...))
		if err := s.Run(t.Context(), b); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(floats(tensor.Shape{rows, 1000}, want...), outputs(t, b)[0]); diff != "" {
			t.Errorf("%d rows: (-want +got)\n%s", rows, diff)
		}
	}
}

// An input that does not fit the signature, or its own shape, never reaches native code.
func TestRunRefusesWrongInputs(t *testing.T) {
	g := onnxgraph.New("neg").Input("x", onnxgraph.Float, "n", 2).Output("y", onnxgraph.Float, "n", 2)
	s := openGraph(t, g.Node("Neg", []string{"x"}, []string{"y"}).Marshal())
	short := floats(tensor.Shape{1, 2}, 1, 2)
	short.Shape = tensor.Shape{1000, 2}
	for name, in := range map[string]tensor.Tensor{
		"dtype":    int64s(tensor.Shape{1, 2}, 1, 2),
		"rank":     floats(tensor.Shape{2}, 1, 2),
		"size":     floats(tensor.Shape{1, 3}, 1, 2, 3),
		"bytes":    short,
		"negative": {DType: tensor.Float32, Shape: tensor.Shape{-1, 2}},
	} {
		b := batchOf(t, s, in)
		contains(t, s.Run(t.Context(), b), `input "x"`)
		if _, ok := errors.AsType[*ort.Error](s.Run(t.Context(), b)); ok {
			t.Errorf("%s: ONNX Runtime was asked", name)
		}
	}
	b := tensor.NewBatch(2, 1, nil)
	contains(t, s.Run(t.Context(), b), "2 inputs")
}

// A failure is about this run's input: others, before and after, succeed.
func TestRunFailsOnInput(t *testing.T) {
	g := onnxgraph.New("gather").Input("i", onnxgraph.Int64, "n").Output("y", onnxgraph.Float, "n")
	g.InitFloats("table", []int64{3}, 10, 20, 30).Node("Gather", []string{"table", "i"}, []string{"y"})
	s := openGraph(t, g.Marshal())
	for range 2 {
		err := s.Run(t.Context(), batchOf(t, s, int64s(tensor.Shape{2}, 1, 3)))
		e, ok := errors.AsType[*ort.Error](err)
		if !ok {
			t.Fatalf("got %v, want an *ort.Error", err)
		}
		contains(t, e, "out of")
		if engine.KindOf(err) != engine.ModelFailed {
			t.Errorf("classified as more than a bad input: %v", e)
		}
		got := runOnce(t, s, int64s(tensor.Shape{2}, 2, 0))[0]
		if diff := cmp.Diff(floats(tensor.Shape{2}, 30, 10), got); diff != "" {
			t.Errorf("(-want +got)\n%s", diff)
		}
	}
}

func TestRunOutOfMemory(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes 7 seconds")
	}
	g := onnxgraph.New("expand").Input("shape", onnxgraph.Int64, 2).Output("y", onnxgraph.Float, nil, nil)
	g.InitFloats("one", []int64{1}, 1).Node("Expand", []string{"one", "shape"}, []string{"y"})
	s := openGraph(t, g.Marshal())
	err := s.Run(t.Context(), batchOf(t, s, int64s(tensor.Shape{2}, 1<<30, 1<<20)))
	if engine.KindOf(err) != engine.OutOfMemory {
		t.Errorf("got %v, want an error that says OutOfMemory", err)
	}
	runOnce(t, s, int64s(tensor.Shape{2}, 1, 2))
}

func TestConcurrentRuns(t *testing.T) {
	g := onnxgraph.New("sum").Input("x", onnxgraph.Float, "n", 2).Output("y", onnxgraph.Float,
		"n", 2).Output("kept", onnxgraph.Float, nil)
	g.Node("Add", []string{"x", "x"}, []string{"y"}).Node("Unique", []string{"y"}, []string{"kept"})
	s := openGraph(t, g.Marshal())
	var wg sync.WaitGroup
	for worker := range 8 {
		b := batchOf(t, s)
		wg.Go(func() {
			for i := range 200 {
				v := float32(worker*1000 + i)
				fill(b, floats(tensor.Shape{1, 2}, v, v+1))
				if err := s.Run(t.Context(), b); err != nil {
					t.Error(err)
					return
				}
				want := []tensor.Tensor{floats(tensor.Shape{1, 2}, 2*v, 2*v+2), floats(tensor.Shape{2}, 2*v, 2*v+2)}
				if diff := cmp.Diff(want, b.Outputs); diff != "" {
					t.Errorf("worker %d: (-want +got)\n%s", worker, diff)
				}
			}
		})
	}
	wg.Wait()
}
