package ort_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/weftserve/weft/internal/onnxgraph"
	"github.com/weftserve/weft/runtime/tensor"
)

func TestIdentityOfEachType(t *testing.T) {
	eachType(t, func(t *testing.T, d tensor.DType) {
		g := onnxgraph.New("identity").Input("x", elementTypes[d], "n", 3).Output("y", elementTypes[d], "n", 3)
		s := openGraph(t, g.Node("Identity", []string{"x"}, []string{"y"}).Marshal())
		for _, rows := range []int64{1, 4, 0, 2} {
			x := sample(d, tensor.Shape{rows, 3})
			got := runOnce(t, s, x)[0]
			if diff := cmp.Diff(x, got); rows > 0 && diff != "" {
				t.Errorf("%d rows: (-want +got)\n%s", rows, diff)
			}
			same(t, x.Shape, got.Shape, "%d rows", rows)
		}
	})
}

func TestScalarOfEachType(t *testing.T) {
	eachType(t, func(t *testing.T, d tensor.DType) {
		g := onnxgraph.New("scalar").Input("x", elementTypes[d]).Output("y", elementTypes[d])
		s := openGraph(t, g.Node("Identity", []string{"x"}, []string{"y"}).Marshal())
		x := sample(d, tensor.Shape{})
		same(t, x, runOnce(t, s, x)[0])
	})
}

// Compress keeps the elements that a condition names: only the run shows how many.
func TestUnknownShapeOfEachType(t *testing.T) {
	eachType(t, func(t *testing.T, d tensor.DType) {
		if d == tensor.BFloat16 {
			t.Skip("ONNX has no Compress of bf16; TestOutputWithoutShape has an unknown shape of it")
		}
		g := onnxgraph.New("compress").Input("x", elementTypes[d], "n").Input("keep", onnxgraph.Bool, "n").
			Output("y", elementTypes[d], nil)
		s := openGraph(t, g.Node("Compress", []string{"x", "keep"}, []string{"y"},
			onnxgraph.IntAttr("axis", 0)).Marshal())
		x := sample(d, tensor.Shape{4})
		same(t, x, runOnce(t, s, x, bools(tensor.Shape{4}, true, true, true, true))[0], "all kept")
		want := sample(d, tensor.Shape{2})
		same(t, want, runOnce(t, s, x, bools(tensor.Shape{4}, true, true, false, false))[0], "two kept")
		if got := runOnce(t, s, x, bools(tensor.Shape{4}, false, false, false, false))[0]; len(got.Data) != 0 ||
			got.Shape[0] != 0 {
			t.Errorf("none kept: got %v", got)
		}
	})
}

// An output that declares no shape may turn out to be a scalar, or of more dimensions than anyone expected.
func TestOutputWithoutShape(t *testing.T) {
	eachType(t, func(t *testing.T, d tensor.DType) {
		g := onnxgraph.New("reshape").Input("x", elementTypes[d], "n").Input("shape", onnxgraph.Int64, "rank")
		g.Node("Reshape", []string{"x", "shape"}, []string{"y"})
		s := openGraph(t, declare(g.Marshal(), outputField, "y", tensorType(elementTypes[d])))
		if notes := s.Signature().Notes; len(notes) != 1 {
			t.Errorf("notes: got %q, want one about the missing shape", notes)
		}
		want := sample(d, tensor.Shape{})
		same(t, want, runOnce(t, s, sample(d, tensor.Shape{1}), int64s(tensor.Shape{0}))[0], "scalar")
		long := tensor.Shape{1, 1, 2, 1, 1, 1, 3, 1, 1, 1, 1}
		want = sample(d, long)
		same(t, want,
			runOnce(t, s, sample(d, tensor.Shape{6}), int64s(tensor.Shape{11}, long...))[0], "rank 11")
		if s.Unpredictable() {
			t.Error("a missing shape was taken for a promise")
		}
	})
}

func TestNonZeroAndUnique(t *testing.T) {
	g := onnxgraph.New("nonzero").Input("x", onnxgraph.Float, "n", 2).
		Output("where", onnxgraph.Int64, 2, nil).Output("values", onnxgraph.Float, nil)
	g.Node("NonZero", []string{"x"}, []string{"where"}).Node("Unique", []string{"x"}, []string{"values"})
	s := openGraph(t, g.Marshal())
	got := runOnce(t, s, floats(tensor.Shape{2, 2}, 0, 5, 7, 5))
	want := []tensor.Tensor{int64s(tensor.Shape{2, 3}, 0, 1, 1, 1, 0, 1), floats(tensor.Shape{3}, 0, 5, 7)}
	same(t, want, got)
}

// The model promises that y has as many rows as x, and breaks its word.
func TestWrongDeclarationIsSurvived(t *testing.T) {
	keep := []string{"x", "keep"}
	models := map[string]*onnxgraph.Graph{
		"symbol": onnxgraph.New("liar").Input("x", onnxgraph.Float, "n").Input("keep", onnxgraph.Bool,
			"m").Output("y", onnxgraph.Float, "n"),
		"size": onnxgraph.New("liar").Input("x", onnxgraph.Float, "n").Input("keep", onnxgraph.Bool,
			"m").Output("y", onnxgraph.Float, 7),
	}
	for name, g := range models {
		t.Run(name, func(t *testing.T) {
			s := openGraph(t, g.Node("Compress", keep, []string{"y"}, onnxgraph.IntAttr("axis", 0)).Marshal())
			for range 3 {
				got := runOnce(t, s, floats(tensor.Shape{3}, 1, 2, 3), bools(tensor.Shape{3}, true, false, true))[0]
				same(t, floats(tensor.Shape{2}, 1, 3), got)
				if !s.Unpredictable() {
					t.Error("the model's word is still taken")
				}
			}
		})
	}
}

// Broadcasting makes one symbol stand for two sizes.
func TestOneSymbolTwoSizes(t *testing.T) {
	g := onnxgraph.New("add").Input("a", onnxgraph.Float, "n").Input("b", onnxgraph.Float,
		"n").Output("y", onnxgraph.Float, "n")
	s := openGraph(t, g.Node("Add", []string{"a", "b"}, []string{"y"}).Marshal())
	one, three := floats(tensor.Shape{1}, 10), floats(tensor.Shape{3}, 1, 2, 3)
	for _, inputs := range [][]tensor.Tensor{{one, three}, {three, one}} {
		same(t, floats(tensor.Shape{3}, 11, 12, 13), runOnce(t, s, inputs...)[0])
	}
	if s.Unpredictable() {
		t.Error("one such request makes every later run slower")
	}
}

// Outputs that no node computes: ONNX Runtime has its own way of handing those out.
func TestOutputsWithoutNode(t *testing.T) {
	g := onnxgraph.New("passthrough").Input("x", onnxgraph.Float, "n", 2).Output("x", onnxgraph.Float, "n", 2).
		Output("constant", onnxgraph.Float, 2).Output("copy", onnxgraph.Float, "n", 2).Output("folded", onnxgraph.Float,
		2).
		Output("again", onnxgraph.Float, "n", 2)
	g.InitFloats("constant", []int64{2}, 8, 9)
	g.Node("Identity", []string{"x"}, []string{"copy"})
	g.Node("Add", []string{"constant", "constant"}, []string{"folded"})
	g.Node("Identity", []string{"copy"}, []string{"again"})
	s := openGraph(t, g.Marshal())
	x := floats(tensor.Shape{1, 2}, 1, 2)
	want := []tensor.Tensor{x, floats(tensor.Shape{2}, 8, 9), x, floats(tensor.Shape{2}, 16, 18), x}
	for range 2 {
		same(t, want, runOnce(t, s, x))
	}
}

// TestOutputsListedTwice are one output each, which has its value, whether or not the number of rows is fixed.
func TestOutputsListedTwice(t *testing.T) {
	for name, rows := range map[string]any{"fixed": 1, "open": "n"} {
		t.Run(name, func(t *testing.T) {
			g := onnxgraph.New("twice").Input("x", onnxgraph.Float, rows, 2)
			for _, out := range []string{"h1", "h0", "h1"} {
				g.Output(out, onnxgraph.Float, rows, 2)
			}
			g.Node("Relu", []string{"x"}, []string{"h0"}).Node("Neg", []string{"h0"}, []string{"h1"})
			s := openGraph(t, g.Marshal())
			for range 2 {
				got := runOnce(t, s, floats(tensor.Shape{1, 2}, 1, 2))
				want := []tensor.Tensor{floats(tensor.Shape{1, 2}, -1, -2), floats(tensor.Shape{1, 2}, 1, 2)}
				same(t, want, got)
			}
			if notes := s.Signature().Notes; len(notes) != 1 {
				t.Errorf("notes %q, want one of the output that is listed twice", notes)
			}
		})
	}
}

func TestSeveralInputsAndOutputs(t *testing.T) {
	g := onnxgraph.New("several").
		Input("a", onnxgraph.Float, "n").Input("b", onnxgraph.Int64, "n").Input("c", onnxgraph.Double).
		Output("sum", onnxgraph.Float, "n").Output("as_int", onnxgraph.Int32, "n").Output("c_half", onnxgraph.Float16)
	g.Node("Cast", []string{"b"}, []string{"b_float"}, onnxgraph.IntAttr("to", int64(onnxgraph.Float)))
	g.Node("Add", []string{"a", "b_float"}, []string{"sum"})
	g.Node("Cast", []string{"sum"}, []string{"as_int"}, onnxgraph.IntAttr("to", int64(onnxgraph.Int32)))
	g.Node("Cast", []string{"c"}, []string{"c_half"}, onnxgraph.IntAttr("to", int64(onnxgraph.Float16)))
	s := openGraph(t, g.Marshal())

	want := &tensor.Signature{
		Inputs: []tensor.Spec{
			{
				Name: "a", DType: tensor.Float32, Shape: tensor.Shape{-1}, DimNames: []string{"n"},
				BatchDim: tensor.NoBatch,
			},
			{
				Name: "b", DType: tensor.Int64, Shape: tensor.Shape{-1}, DimNames: []string{"n"},
				BatchDim: tensor.NoBatch,
			},
			{Name: "c", DType: tensor.Float64, Shape: tensor.Shape{}, BatchDim: tensor.NoBatch},
		},
		Outputs: []tensor.Spec{
			{
				Name: "sum", DType: tensor.Float32, Shape: tensor.Shape{-1}, DimNames: []string{"n"},
				BatchDim: tensor.NoBatch,
			},
			{
				Name: "as_int", DType: tensor.Int32, Shape: tensor.Shape{-1}, DimNames: []string{"n"},
				BatchDim: tensor.NoBatch,
			},
			{Name: "c_half", DType: tensor.Float16, Shape: tensor.Shape{}, BatchDim: tensor.NoBatch},
		},
	}
	same(t, want, s.Signature(), "signature")
	c := tensor.Tensor{DType: tensor.Float64, Shape: tensor.Shape{}, Data: []byte{0, 0, 0, 0, 0, 0, 0xf8, 0x3f}} // 1.5
	got := runOnce(t, s, floats(tensor.Shape{2}, 0.5, 1.5), int64s(tensor.Shape{2}, 10, 20), c)
	wantOut := []tensor.Tensor{
		floats(tensor.Shape{2}, 10.5, 21.5),
		{DType: tensor.Int32, Shape: tensor.Shape{2}, Data: []byte{10, 0, 0, 0, 21, 0, 0, 0}},
		{DType: tensor.Float16, Shape: tensor.Shape{}, Data: []byte{0, 0x3e}},
	}
	same(t, wantOut, got, "outputs")
}
