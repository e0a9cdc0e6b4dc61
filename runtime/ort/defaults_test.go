package ort_test

import (
	"testing"

	"github.com/weftserve/weft/internal/onnxgraph"
	"github.com/weftserve/weft/runtime/tensor"
)

// scaled is y = x·scale + offset, reshaped; all but x have a default.
func scaled() *onnxgraph.Graph {
	g := onnxgraph.New("scaled").Input("scale", onnxgraph.Float).Input("x", onnxgraph.Float, "n", 2).
		Input("offset", onnxgraph.Float, 2).Input("shape", onnxgraph.Int64, "rank").Output("y", onnxgraph.Float, "n", 2)
	g.InitFloats("scale", nil, 2).InitFloats("offset", []int64{2}, 0, 100).InitInt64s("shape", []int64{2}, -1, 2)
	g.Node("Mul", []string{"x", "scale"}, []string{"product"}).Node("Add", []string{"product", "offset"}, []string{"sum"})
	return g.Node("Reshape", []string{"sum", "shape"}, []string{"y"})
}

// TestInputsWithDefaults: a run may bring any of them, and the next one has the defaults again.
func TestInputsWithDefaults(t *testing.T) {
	s := openGraph(t, scaled().Marshal())
	sig := s.Signature()
	if len(sig.Inputs) != 1 || len(sig.Optional) != 3 || len(sig.Notes) != 1 || sig.Optional[1].Name != "offset" {
		t.Fatalf("signature %+v", sig)
	}
	b := tensor.NewBatch(sig.MostInputs(), 1, nil)
	defer b.Free()
	x := floats(tensor.Shape{2, 2}, 1, 2, 3, 4)
	none := tensor.Tensor{}
	for range 2 {
		for name, c := range map[string]struct {
			given []tensor.Tensor
			want  tensor.Tensor
		}{
			"none": {nil, floats(tensor.Shape{2, 2}, 2, 104, 6, 108)},
			"the first": {
				[]tensor.Tensor{floats(tensor.Shape{}, 3)}, floats(tensor.Shape{2, 2}, 3, 106, 9, 112),
			},
			"the second": {
				[]tensor.Tensor{none, floats(tensor.Shape{2}, 1, 1)}, floats(tensor.Shape{2, 2}, 3, 5, 7, 9),
			},
			"the last": {[]tensor.Tensor{none, none, int64s(tensor.Shape{1}, 4)}, floats(tensor.Shape{4}, 2, 104, 6, 108)},
			"all": {
				[]tensor.Tensor{
					floats(tensor.Shape{}, 1), floats(tensor.Shape{2}, 1, 1),
					int64s(tensor.Shape{3}, 1, 4, 1),
				}, floats(tensor.Shape{1, 4, 1}, 2, 3, 4, 5),
			},
			"left out by name": {[]tensor.Tensor{none, none, none}, floats(tensor.Shape{2, 2}, 2, 104, 6, 108)},
		} {
			b.Feed(1 + len(c.given))
			for i, in := range append([]tensor.Tensor{x}, c.given...) {
				if in.DType != tensor.Invalid {
					copy(b.Input(i, in.DType, in.Shape, len(in.Data)), in.Data)
				}
			}
			b.Copied = c.given != nil
			if err := s.Run(t.Context(), b); err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			same(t, c.want, outputs(t, b)[0], "%s", name)
		}
	}
	if s.Unpredictable() {
		t.Error("a default that was replaced makes later runs slower")
	}
	b.Feed(2)
	copy(b.Input(0, x.DType, x.Shape, len(x.Data)), x.Data)
	b.Input(1, tensor.Int64, tensor.Shape{}, 8)
	contains(t, s.Run(t.Context(), b), `input "scale": expected fp32 []`)
}

// TestConstantsOfOldFiles are no inputs, though they are listed as such.
func TestConstantsOfOldFiles(t *testing.T) {
	g := onnxgraph.New("old").IRVersion(3).Opset("", 8).Input("x", onnxgraph.Float, "n", 2).Input("w", onnxgraph.Float, 2).
		Output("y", onnxgraph.Float, "n", 2).InitFloats("w", []int64{2}, 3, 5)
	s := openGraph(t, g.Node("Mul", []string{"x", "w"}, []string{"y"}).Marshal())
	if sig := s.Signature(); len(sig.Inputs) != 1 || len(sig.Optional) != 0 {
		t.Errorf("signature %+v", sig)
	}
	got := runOnce(t, s, floats(tensor.Shape{1, 2}, 1, 2))[0]
	same(t, floats(tensor.Shape{1, 2}, 3, 10), got)
}
