package onnxgraph_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/weftserve/weft/internal/onnxgraph"
)

func TestGraphsWithinGraphs(t *testing.T) {
	body := onnxgraph.New("body").UnshapedInput("i", onnxgraph.Int64).AnyOutput("o").Node("Identity", []string{"i"}, []string{"o"})
	b := onnxgraph.New("g").Node("Loop", nil, nil, onnxgraph.GraphAttr("body", body)).Marshal()

	attr := path(t, b, 7, 1, 5)
	if kind := path(t, attr.bytes, 20).number; kind != 5 {
		t.Errorf("attribute type %d, want GRAPH", kind)
	}
	inner := path(t, attr.bytes, 6).bytes
	if got := string(path(t, inner, 2).bytes); got != "body" {
		t.Errorf("graph %q", got)
	}
	if got := path(t, inner, 11, 2, 1, 1).number; got != uint64(onnxgraph.Int64) {
		t.Errorf("input has element type %d", got)
	}
	if shape := decode(t, path(t, inner, 11, 2, 1).bytes)[2]; shape != nil {
		t.Error("input has a shape")
	}
	if got := decode(t, path(t, inner, 12).bytes); string(got[1][0].bytes) != "o" || got[2] != nil {
		t.Errorf("output %v, want o without a type", got)
	}
}

func TestFunction(t *testing.T) {
	body := onnxgraph.New("").Opset("", 18).Node("Elu", []string{"a"}, []string{"b"}, onnxgraph.RefAttr("alpha", "slope", 1))
	b := onnxgraph.New("g").Function("mine", "Soft", body, []string{"a"}, []string{"b"}, []string{"slope"}).Marshal()

	f := decode(t, path(t, b, 25).bytes)
	if diff := cmp.Diff([]string{"Soft", "a", "b", "slope", "mine"},
		texts([]field{f[1][0], f[4][0], f[5][0], f[6][0], f[10][0]})); diff != "" {
		t.Errorf("function (-want +got):\n%s", diff)
	}
	if got := path(t, f[9][0].bytes, 2).number; got != 18 {
		t.Errorf("operator set %d, want 18", got)
	}
	attr := decode(t, path(t, f[7][0].bytes, 5).bytes)
	if string(attr[21][0].bytes) != "slope" || attr[20][0].number != 1 {
		t.Errorf("attribute %v, want one of type FLOAT that refers to slope", attr)
	}
}

func TestListAttributes(t *testing.T) {
	b := onnxgraph.New("g").Node("Op", nil, nil,
		onnxgraph.FloatsAttr("fs", 0.5, 1), onnxgraph.StringsAttr("ss", "a", "b")).Marshal()
	attrs := decode(t, path(t, b, 7, 1).bytes)[5]
	floats, strings := decode(t, attrs[0].bytes), decode(t, attrs[1].bytes)
	if len(floats[7]) != 2 || floats[7][0].number != 0x3f000000 || floats[20][0].number != 6 {
		t.Errorf("floats %v", floats)
	}
	if diff := cmp.Diff([]string{"a", "b"}, texts(strings[9])); diff != "" || strings[20][0].number != 8 {
		t.Errorf("strings (-want +got):\n%s", diff)
	}
}
