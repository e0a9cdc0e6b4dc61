package ort_test

import (
	"strings"
	"testing"

	"github.com/weftserve/weft/internal/onnxgraph"
	"github.com/weftserve/weft/internal/weftest"
	"github.com/weftserve/weft/runtime/ort"
	"github.com/weftserve/weft/runtime/tensor"
)

// ofLibrary is a model of one operator.
func ofLibrary(domain, op string) []byte {
	return onnxgraph.New("g").Opset(domain, 1).Input("x", onnxgraph.Float, "N", 2).
		DomainNode(domain, op, []string{"x"}, []string{"y"}).Output("y", onnxgraph.Float, "N", 2).Marshal()
}

func TestOperatorsOfLibraries(t *testing.T) {
	first, second := weftest.Operators(t), weftest.Operators(t, `DOMAIN="weft.other"`)
	o := ort.Options{Operators: []string{first, second}}
	for _, domain := range []string{"weft.test", "weft.other"} {
		for op, want := range map[string][]float32{"Twice": {2, 4}, "Total": {4, 5}} {
			s := openWith(t, weftest.WriteFile(t, t.TempDir(), "model.onnx", ofLibrary(domain, op)), o)
			same(t, want, weftest.Values(runOnce(t, s, floats(tensor.Shape{1, 2}, 1, 2))[0]), "%s of %s", op, domain)
		}
	}
}

// TestUnfitOperators: the error names the library, and says what was expected and what to do, whatever the model is.
func TestUnfitOperators(t *testing.T) {
	initialise(t)
	model := weftest.WriteFile(t, t.TempDir(), "model.onnx",
		onnxgraph.New("g").Input("x", onnxgraph.Float, "N", 2).Node("Abs", []string{"x"}, []string{"y"}).
			Output("y", onnxgraph.Float, "N", 2).Marshal())
	text := weftest.WriteFile(t, t.TempDir(), "operators.so", []byte("no library"))
	good := weftest.Operators(t)
	const library = "expected a shared library for this system that exports RegisterCustomOps"
	const domain = "expected operators of another domain, whose name nobody else has"
	for _, c := range []struct {
		libraries []string
		wants     []string
	}{
		{[]string{text}, []string{library}},
		{[]string{text + ".not"}, []string{"cannot open shared object file", library}},
		{[]string{good, weftest.Operators(t, "NO_ENTRY")}, []string{"it does not export RegisterCustomOps; ", library}},
		{
			[]string{good, weftest.Operators(t, "NEEDS_PYTHON")},
			[]string{"it needs Python (undefined symbol: PyInstanceMethod_Type)", "build the C++ library"},
		},
		// ONNX Runtime would run them in the place of its own.
		{[]string{weftest.Operators(t, `DOMAIN=""`, `TOTAL="Abs"`)}, []string{domain}},
		{[]string{weftest.Operators(t, `DOMAIN="ai.onnx"`, `TOTAL="Abs"`)}, []string{domain}},
		{[]string{weftest.Operators(t, `DOMAIN="ai.onnx.ml"`, `TOTAL="Scaler"`)}, []string{domain}},
		{[]string{weftest.Operators(t, `DOMAIN="com.microsoft"`, `TOTAL="Gelu"`)}, []string{domain}},
		{[]string{good, weftest.Operators(t, `TOTAL="Another"`)}, []string{domain}},
	} {
		s, err := ort.Open(model, ort.Options{Operators: c.libraries})
		if err == nil {
			t.Errorf("a model is opened with %v", c.libraries)
			_ = s.Close()
			continue
		}
		at := c.libraries[len(c.libraries)-1]
		for _, want := range append(c.wants, "cannot use the operator library "+at+", named by --ort-ops: ") {
			if !strings.Contains(err.Error(), want) {
				t.Errorf("with %v: %v\nwant %q", c.libraries, err, want)
			}
		}
	}
	if _, err := ort.Open(weftest.WriteFile(t, t.TempDir(), "model.onnx", ofLibrary("weft.test", "Twice")),
		ort.Options{}); err == nil || !strings.Contains(err.Error(), "name that with --ort-ops") {
		t.Errorf("without the library: %v", err)
	}
}
