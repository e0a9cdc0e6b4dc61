package modelrepo_test

import (
	"strings"
	"testing"

	"github.com/weftserve/weft/internal/weftest"
	"github.com/weftserve/weft/runtime/modelrepo"
	"github.com/weftserve/weft/runtime/tensor"
)

// TestDeclared has a model x [?,3] → y [?,3], and what a config.pbtxt may say of it.
func TestDeclared(t *testing.T) {
	one := func(name string, dtype tensor.DType, dims ...int64) []modelrepo.DeclaredTensor {
		return []modelrepo.DeclaredTensor{{Name: name, DType: dtype, Shape: dims}}
	}
	const fp32, unknown = tensor.Float32, tensor.Unknown
	for _, test := range []struct {
		says modelrepo.Declared
		rows int64  // of the model
		want string // "": it fits
	}{
		{modelrepo.Declared{Rows: true, Inputs: one("x", fp32, 3), Outputs: one("y", fp32, unknown)}, unknown, ""},
		{modelrepo.Declared{Inputs: one("x", fp32, unknown, 3)}, unknown, ""},
		{modelrepo.Declared{Inputs: one("x", tensor.Invalid, 8, 3)}, unknown, ""},
		{modelrepo.Declared{MaybeRows: true, Inputs: one("x", fp32, 3)}, unknown, ""},
		{modelrepo.Declared{Outputs: one("y", fp32, unknown, 3)}, unknown, ""},
		{
			modelrepo.Declared{Inputs: one("x", fp32, 3)},
			unknown,
			`input "x": dims [3], but the model expects [?,3]; correct dims, or set max_batch_size`,
		},
		{
			modelrepo.Declared{Rows: true, Inputs: one("x", fp32, 4)},
			unknown,
			`input "x": dims [4], with the dimension of the batch before them [?,4] (max_batch_size is above 0), but the model expects [?,3]`,
		},
		{
			modelrepo.Declared{Rows: true, Inputs: one("x", tensor.Int64, 3)},
			unknown,
			`input "x": the data type is int64, but the model expects fp32; correct data_type`,
		},
		{modelrepo.Declared{Inputs: one("z", fp32)}, unknown, `the model has the input "x", which the file does not have; add it`},
		{modelrepo.Declared{Outputs: one("z", fp32)}, unknown, `output "z": the model has no such output, only y; correct the name`},
		{
			modelrepo.Declared{Rows: true, Inputs: one("x", fp32, 3)},
			4,
			`input "x": max_batch_size is above 0, so the model's first dimension must be open`,
		},
	} {
		s := &tensor.Signature{
			Inputs:  []tensor.Spec{weftest.Spec("x", fp32, test.rows, 3)},
			Outputs: []tensor.Spec{weftest.Spec("y", fp32, test.rows, 3)},
		}
		test.says.File = "config.pbtxt"
		if err := test.says.Check(s, nil); (err == nil) != (test.want == "") ||
			err != nil && !strings.Contains(err.Error(), "config.pbtxt: "+test.want) {
			t.Errorf("%+v: %v\nwant %s", test.says, err, test.want)
		}
	}
}

// TestDeclaredOptional: inputs that the file has as optional may be left out where the model has a default; where it
// has none, that is said.
func TestDeclaredOptional(t *testing.T) {
	x, bias := weftest.Spec("x", tensor.Float32, tensor.Unknown, 2), weftest.Spec("bias", tensor.Float32, 2)
	d := &modelrepo.Declared{File: "config.pbtxt", Inputs: []modelrepo.DeclaredTensor{
		{Name: "x", Shape: tensor.Shape{-1, 2}}, {Name: "bias", Shape: tensor.Shape{2}, Optional: true},
	}}
	for _, s := range []*tensor.Signature{
		{Inputs: []tensor.Spec{x, bias}}, {Inputs: []tensor.Spec{x}, Optional: []tensor.Spec{bias}},
	} {
		if err := d.Check(s, nil); err != nil {
			t.Error(err)
		}
		if err := d.Show(s); err != nil {
			t.Error(err)
		}
		if is := strings.Contains(strings.Join(s.Notes, ""), "optional there, but the model has no default"); is ==
			(s.Optional != nil) {
			t.Errorf("notes %q", s.Notes)
		}
	}
}

// TestDeclaredState: the file need not list the inputs that the server fills.
func TestDeclaredState(t *testing.T) {
	d := &modelrepo.Declared{File: "config.pbtxt", Inputs: []modelrepo.DeclaredTensor{{Name: "x", Shape: tensor.Shape{2}}}}
	s := &tensor.Signature{}
	for _, name := range []string{"x", "h", "first"} {
		s.Inputs = append(s.Inputs, weftest.Spec(name, tensor.Float32, 2))
	}
	kept := &modelrepo.State{Pairs: []modelrepo.StatePair{{Input: "h", Output: "hn"}}, Start: "first"}
	if err := d.Check(s, kept); err != nil {
		t.Error(err)
	}
	if kept.Start = ""; !strings.Contains(d.Check(s, kept).Error(), `the model has the input "first"`) {
		t.Error("an input that nobody fills is not missed")
	}
}
