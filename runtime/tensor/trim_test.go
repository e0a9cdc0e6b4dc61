package tensor_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/weftserve/weft/runtime/tensor"
)

// TestShare: an output follows the length of a padded input where it is as long, and comes as it is where it is not.
func TestShare(t *testing.T) {
	length := &tensor.Variable{Dim: 1, Buckets: []int64{2, 4}, Most: 4, Pad: []byte{0}}
	s := &tensor.Signature{
		Inputs: []tensor.Spec{{
			Name: "x", DType: tensor.Uint8, Shape: tensor.Shape{tensor.Unknown, tensor.Unknown},
			Variable: length,
		}},
	}
	if p, pads := s.Inputs[0].Padding(tensor.Shape{1, 3}); !pads || p.Dim != 1 || p.Size != 4 {
		t.Errorf("3 elements are padded %v, by %+v", pads, p)
	}
	inputs := []tensor.Tensor{{DType: tensor.Uint8, Shape: tensor.Shape{1, 3}, Data: []byte("xyz")}}
	out := tensor.Tensor{DType: tensor.Uint8, Shape: tensor.Shape{2, 4}, Data: []byte("abc_def_")}
	trims := []tensor.Trim{{Output: 0, Dim: 1, Input: 0}}
	for name, test := range map[string]struct {
		trims []tensor.Trim
		dim   int
		want  string
	}{
		"a row":              {trims, 0, "def"},
		"all rows":           {trims, tensor.NoBatch, "abcdef"},
		"a row as it comes":  {nil, 0, "def_"},
		"of another output":  {[]tensor.Trim{{Output: 1, Dim: 1}}, 0, "def_"},
		"all as they come":   {nil, tensor.NoBatch, "abc_def_"},
		"of another length":  {[]tensor.Trim{{Output: 0, Dim: 0}}, 0, "def_"},
		"of no such a place": {[]tensor.Trim{{Output: 0, Dim: 2}}, 0, "def_"},
	} {
		got := s.Share(test.trims, 0, test.dim, tensor.RowRange{Tensor: out, First: 1, Rows: 1}, inputs, nil)
		if diff := cmp.Diff(test.want, string(got.Data)); diff != "" {
			t.Errorf("%s (-want +got)\n%s", name, diff)
		}
	}
}
