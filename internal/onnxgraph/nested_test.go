package onnxgraph_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/weftserve/weft/internal/onnxgraph"
)

func TestGraphsWithinGraphs(t *testing.T) {
	body := onnxgraph.New("body").UnshapedInput("i", onnxgraph.Int64).AnyOutput("o").Node("Identity", []string{"i"},
		[]string{"o"})
	b := onnxgraph.New("g").Node("Loop", nil, nil, onnxgraph.GraphAttr("body", body)).Marshal()

	attr := path(t, b, 7, 1, 5)
	if name, kind := string(path(t, attr.bytes, 1).bytes), path(t, attr.bytes, 20).number; name != "body" || kind != 5 {
		t.Errorf("attribute %q of type %d, want body, a GRAPH", name, kind)
	}
	inner := path(t, attr.bytes, 6).bytes
	if got := string(path(t, inner, 2).bytes); got != "body" {
		t.Errorf("graph %q", got)
	}
	if name, got := string(path(t, inner, 11, 1).bytes), path(t, inner, 11, 2, 1, 1).number; name != "i" ||
		got != uint64(onnxgraph.Int64) {
		t.Errorf("input %q has element type %d", name, got)
	}
	if shape := decode(t, path(t, inner, 11, 2, 1).bytes)[2]; shape != nil {
		t.Error("input has a shape")
	}
	if got := decode(t, path(t, inner, 12).bytes); string(got[1][0].bytes) != "o" || got[2] != nil {
		t.Errorf("output %v, want o without a type", got)
	}
}

func TestFunction(t *testing.T) {
	body := onnxgraph.New("").Opset("", 18).Node("Elu", []string{"a"}, []string{"b"},
		onnxgraph.RefAttr("alpha", "slope", 1))
	b := onnxgraph.New("g").Function("mine", "Soft", body, []string{"a", "c"}, []string{"b", "a"},
		[]string{"slope", "other"}).Marshal()

	f := decode(t, path(t, b, 25).bytes)
	if diff := cmp.Diff([][]string{{"Soft"}, {"a", "c"}, {"b", "a"}, {"slope", "other"}, {"mine"}},
		[][]string{texts(f[1]), texts(f[4]), texts(f[5]), texts(f[6]), texts(f[10])}); diff != "" {
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
	if diff := cmp.Diff([]string{"fs", "ss"}, texts([]field{floats[1][0], strings[1][0]})); diff != "" {
		t.Errorf("names (-want +got):\n%s", diff)
	}
	if len(floats[7]) != 2 || floats[7][0].number != 0x3f000000 || floats[20][0].number != 6 {
		t.Errorf("floats %v", floats)
	}
	if diff := cmp.Diff([]string{"a", "b"}, texts(strings[9])); diff != "" || strings[20][0].number != 8 {
		t.Errorf("strings (-want +got):\n%s", diff)
	}
}
