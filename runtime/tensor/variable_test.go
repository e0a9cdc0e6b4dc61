package tensor_test

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/weftserve/weft/runtime/tensor"
)

// text has ids and a mask of the same length, padded to 4 or 8, and labels of another.
func text() *tensor.Signature {
	variable := func(like int, most int64, buckets ...int64) *tensor.Variable {
		return &tensor.Variable{Dim: 1, Most: most, Buckets: buckets, Like: like}
	}
	return &tensor.Signature{Inputs: []tensor.Spec{
		{Name: "ids", DType: tensor.Int64, Shape: tensor.Shape{-1, -1}, Variable: variable(0, 8, 4, 8)},
		{Name: "mask", DType: tensor.Int64, Shape: tensor.Shape{-1, -1}, Variable: variable(0, 8, 4, 8)},
		{Name: "labels", DType: tensor.Int64, Shape: tensor.Shape{-1, -1}, Variable: variable(2, 3)},
	}}
}

func lengths(ids, mask, labels int64) []tensor.Tensor {
	return []tensor.Tensor{
		{DType: tensor.Int64, Shape: tensor.Shape{2, ids}},
		{DType: tensor.Int64, Shape: tensor.Shape{2, mask}},
		{DType: tensor.Int64, Shape: tensor.Shape{2, labels}},
	}
}

func TestLengthsOfARequest(t *testing.T) {
	for _, good := range [][]tensor.Tensor{lengths(1, 1, 1), lengths(8, 8, 3), lengths(5, 5, 2)} {
		if rows, err := text().Rows(good); rows != 2 || err != nil {
			t.Errorf("%v: %d rows, %v", good, rows, err)
		}
	}
	for _, test := range []struct {
		inputs []tensor.Tensor
		want   tensor.FieldError
	}{
		{lengths(9, 9, 1), tensor.FieldError{
			Field: `inputs["ids"].shape`, Want: "1 to 8 elements in dimension 1 (8 is the largest bucket)",
			Got: "9 in [2,9]",
		}},
		{lengths(1, 1, 0), tensor.FieldError{
			Field: `inputs["labels"].shape`, Want: "1 to 3 elements in dimension 1 (3 is the largest bucket)",
			Got: "0 in [2,0]",
		}},
		{lengths(7, 6, 1), tensor.FieldError{
			Field: `inputs["mask"].shape`, Want: `7 elements in dimension 1, as input "ids" brings`, Got: "6 in [2,6]",
		}},
	} {
		_, err := text().Rows(test.inputs)
		got, is := errors.AsType[*tensor.FieldError](err)
		if !is {
			t.Errorf("%v: %v", test.inputs, err)
			continue
		}
		if diff := cmp.Diff(test.want, *got); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	}
}

// TestLengthsShareABucketsKey: labels have no buckets, so that each length of theirs is a key of its own.
func TestLengthsShareABucketsKey(t *testing.T) {
	key := func(in []tensor.Tensor) string { return string(text().Key(nil, in)) }
	base := key(lengths(5, 5, 2))
	for _, test := range []struct {
		inputs []tensor.Tensor
		same   bool
	}{
		{lengths(6, 6, 2), true},
		{lengths(8, 8, 2), true},
		{lengths(4, 4, 2), false},
		{lengths(5, 5, 1), false},
	} {
		if (key(test.inputs) == base) != test.same {
			t.Errorf("%v: joinable %t", test.inputs, !test.same)
		}
	}
	if got := string(text().ShapeKey(nil, lengths(5, 5, 2))); got != string(text().ShapeKey(nil, lengths(8, 8, 2))) ||
		got == string(text().ShapeKey(nil, lengths(3, 3, 2))) {
		t.Error("the shape key must tell buckets apart, and nothing finer")
	}
}
