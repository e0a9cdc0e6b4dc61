package tensor_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/weftserve/weft/runtime/tensor"
)

func TestRow(t *testing.T) {
	table := tensor.Tensor{DType: tensor.Uint8, Shape: tensor.Shape{2, 3}, Data: []byte("abcdef")}
	for name, test := range map[string]struct {
		dim, row int
		want     tensor.Tensor
	}{
		"first dimension":  {0, 1, tensor.Tensor{DType: tensor.Uint8, Shape: tensor.Shape{1, 3}, Data: []byte("def")}},
		"second dimension": {1, 2, tensor.Tensor{DType: tensor.Uint8, Shape: tensor.Shape{2, 1}, Data: []byte("cf")}},
		"no rows":          {tensor.NoBatch, 1, table},
	} {
		got := table.Row(test.dim, test.row)
		if diff := cmp.Diff(test.want, got); diff != "" {
			t.Errorf("%s (-want +got)\n%s", name, diff)
		}
		if size := table.RowBytes(test.dim, test.row); size != int64(len(got.Data)) {
			t.Errorf("%s: %d bytes are said to be copied, and %d are", name, size, len(got.Data))
		}
		if &got.Data[0] == &table.Data[0] {
			t.Errorf("%s: it is no copy", name)
		}
	}
}

func TestRepeated(t *testing.T) {
	row := tensor.Tensor{DType: tensor.Uint8, Shape: tensor.Shape{2, 1}, Data: []byte("ab")}
	want := tensor.Tensor{DType: tensor.Uint8, Shape: tensor.Shape{2, 3}, Data: []byte("aaabbb")}
	if diff := cmp.Diff(want, row.Repeated(1, 3)); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	if diff := cmp.Diff(row, row.Repeated(tensor.NoBatch, 3)); diff != "" {
		t.Errorf("what has no rows (-want +got)\n%s", diff)
	}
}

func TestShapesWithRows(t *testing.T) {
	s := tensor.Shape{4, 2}
	for dim, want := range map[int]bool{0: true, 1: false, 2: false, tensor.NoBatch: true} {
		if got := s.HasRows(dim, 4); got != want {
			t.Errorf("4 rows in dimension %d of %v: %v", dim, s, got)
		}
	}
	if !s.EqualBut(0, tensor.Shape{9, 2}) || s.EqualBut(1, tensor.Shape{9, 2}) || s.EqualBut(0, tensor.Shape{4, 2, 1}) {
		t.Error("shapes that differ in one dimension are told apart by another, or the other way round")
	}
}
