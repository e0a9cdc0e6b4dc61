package ort_test

import (
	"sync"
	"testing"

	"github.com/weftserve/weft/internal/onnxgraph"
	"github.com/weftserve/weft/runtime/engine"
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
	same(t, want, got)
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
				same(t, want, b.Outputs, "worker %d", worker)
			}
		})
	}
	wg.Wait()
}
