package host_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/weftserve/weft/internal/onnxgraph"
	"github.com/weftserve/weft/runtime/catalog"
	"github.com/weftserve/weft/runtime/modelrepo"
	"github.com/weftserve/weft/runtime/tensor"
)

// TestDeclaredSignature has a model x [?,3] → y [?,3], and what a config.pbtxt may say of it.
func TestDeclaredSignature(t *testing.T) {
	one := func(name string, dtype tensor.DType, dims ...int64) []modelrepo.DeclaredTensor {
		return []modelrepo.DeclaredTensor{{Name: name, DType: dtype, Shape: dims}}
	}
	const fp32, unknown = tensor.Float32, tensor.Unknown
	for _, test := range []struct {
		says modelrepo.Declared
		want string // "": it is served
	}{
		{modelrepo.Declared{Rows: true, Inputs: one("x", fp32, 3), Outputs: one("y", fp32, unknown)}, ""},
		{modelrepo.Declared{Inputs: one("x", fp32, unknown, 3)}, ""},
		{modelrepo.Declared{Inputs: one("x", tensor.Invalid, 8, 3)}, ""},
		{modelrepo.Declared{MaybeRows: true, Inputs: one("x", fp32, 3)}, ""},
		{modelrepo.Declared{Outputs: one("y", fp32, unknown, 3)}, ""},
		{
			modelrepo.Declared{Inputs: one("x", fp32, 3)},
			`input "x": dims [3], but the model expects [?,3]; correct dims, or set max_batch_size`,
		},
		{
			modelrepo.Declared{Rows: true, Inputs: one("x", fp32, 4)},
			`input "x": dims [4], with the dimension of the batch before them [?,4] (max_batch_size is above 0), but the model expects [?,3]`,
		},
		{
			modelrepo.Declared{Rows: true, Inputs: one("x", tensor.Int64, 3)},
			`input "x": the data type is int64, but the model expects fp32; correct data_type`,
		},
		{
			modelrepo.Declared{Inputs: one("z", fp32)},
			`the model has the input "x", which the file does not have; add it`,
		},
		{
			modelrepo.Declared{Outputs: one("z", fp32)},
			`output "z": the model has no such output, only y; correct the name`,
		},
	} {
		w := newWorld(t, 1)
		f := perRow(3, double)
		test.says.File = "config.pbtxt"
		w.add("m", 1, f, func(m *modelrepo.Manifest) { m.Declared = &test.says })
		v := w.load("m")
		switch {
		case test.want == "":
			if v.State != catalog.Ready {
				t.Errorf("%+v: %v", test.says, v.Fault)
			}
		case v.State != catalog.Failed || !strings.Contains(v.Fault.Error(), "config.pbtxt: "+test.want):
			t.Errorf("state %v, fault %v\nwant %s", v.State, v.Fault, test.want)
		case f.Closed() != 1:
			t.Errorf("the session of a version that failed was closed %d times", f.Closed())
		}
	}
}

// TestDeclaredRows: a batch dimension that the model does not leave open.
func TestDeclaredRows(t *testing.T) {
	w := newWorld(t, 1)
	w.add("m", 1, fixed(4, 3), func(m *modelrepo.Manifest) {
		m.Declared = &modelrepo.Declared{
			Rows: true, Inputs: []modelrepo.DeclaredTensor{{Name: "x", DType: tensor.Float32, Shape: tensor.Shape{3}}},
		}
	})
	if v := w.load("m"); v.State != catalog.Failed ||
		!strings.Contains(v.Fault.Error(), "max_batch_size is above 0, so the model's first dimension must be open") {
		t.Errorf("state %v, fault %v", v.State, v.Fault)
	}
}

// TestADeclarationThatChanges is compared with the model again, and the version that serves stays.
func TestADeclarationThatChanges(t *testing.T) {
	w := newWorld(t, 1)
	w.add("m", 1, perRow(3, double), nil)
	w.reconcile()
	w.put("m", 1, perRow(3, double), "") // another engine, of the same files
	w.edit("m", func(m *modelrepo.Manifest) {
		m.Declared = &modelrepo.Declared{Inputs: []modelrepo.DeclaredTensor{{Name: "x", DType: tensor.Int8}}}
	})
	w.reconcile()
	if v := w.version("m", 1); v.State != catalog.Ready || !strings.Contains(v.Cause, "the data type is int8") {
		t.Errorf("state %v, cause %q", v.State, v.Cause)
	}
}

// TestDeclaredOptional: inputs that the file has as optional may be left out where the model has a default; where it
// has none, that is said.
func TestDeclaredOptional(t *testing.T) {
	g := onnxgraph.New("g").Input("x", onnxgraph.Float, "n", 2).Input("bias", onnxgraph.Float, 2).
		Node("Add", []string{"x", "bias"}, []string{"y"}).Output("y", onnxgraph.Float, "n", 2)
	for _, has := range []bool{false, true} {
		if has {
			g.InitFloats("bias", []int64{2}, 10, 20)
		}
		l := onnxModel(t, g.Marshal())
		l.Models[0].Manifest.Declared = &modelrepo.Declared{File: "config.pbtxt", Inputs: []modelrepo.DeclaredTensor{
			{Name: "x", Shape: tensor.Shape{-1, 2}}, {Name: "bias", Shape: tensor.Shape{2}, Optional: true},
		}}
		h := onnxHost(t, l)
		v := h.Snapshot().Model("m").Version(1)
		if v.State != catalog.Ready {
			t.Fatal(v.Cause)
		}
		if is := strings.Contains(fmt.Sprint(v.Signature.Notes), "optional there, but the model has no default"); is == has {
			t.Errorf("default %t: notes %q", has, v.Signature.Notes)
		}
		if !has {
			continue
		}
		for _, inputs := range [][]tensor.Tensor{
			{floats(tensor.Shape{1, 2}, 1, 2)},
			{floats(tensor.Shape{1, 2}, 10, 20), floats(tensor.Shape{2}, 1, 2)},
		} {
			c := &catalog.Call{Version: v, Rows: 1, Inputs: inputs}
			if err := h.Predict(t.Context(), c); err != nil || !slices.Equal(values(c.Results[0]), []float32{11, 22}) {
				t.Errorf("%v is answered with %v, %v", inputs, c.Results, err)
			}
		}
	}
}
