package tensor_test

import (
	"errors"
	"math"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/weftserve/weft/runtime/tensor"
)

// speech has a batch dimension at two places, an open dimension next to it, and an input without rows.
func speech() *tensor.Signature {
	return &tensor.Signature{Inputs: []tensor.Spec{
		{Name: "audio", DType: tensor.Float32, Shape: tensor.Shape{-1, -1}, BatchDim: 0},
		{Name: "state", DType: tensor.Float32, Shape: tensor.Shape{2, -1, 4}, BatchDim: 1},
		{Name: "rate", DType: tensor.Int64, Shape: tensor.Shape{}, BatchDim: tensor.NoBatch},
	}}
}

// request has rows rows of samples samples.
func request(rows, samples int64, rate byte) []tensor.Tensor {
	return []tensor.Tensor{
		{DType: tensor.Float32, Shape: tensor.Shape{rows, samples}},
		{DType: tensor.Float32, Shape: tensor.Shape{2, rows, 4}},
		{DType: tensor.Int64, Shape: tensor.Shape{}, Data: []byte{rate, 0, 0, 0, 0, 0, 0, 0}},
	}
}

func TestRows(t *testing.T) {
	if rows, err := speech().Rows(request(3, 512, 1)); rows != 3 || err != nil {
		t.Errorf("got %d, %v, want 3", rows, err)
	}
	if rows, err := speech().Rows(request(math.MaxInt32, 0, 1)); rows != math.MaxInt32 || err != nil {
		t.Errorf("got %d, %v, want %d", rows, err, math.MaxInt32)
	}
	unbatched := &tensor.Signature{Inputs: speech().Inputs[2:]}
	if rows, err := unbatched.Rows(request(3, 512, 1)[2:]); rows != 1 || err != nil {
		t.Errorf("without a batch dimension: got %d, %v, want 1", rows, err)
	}
}

func TestRowsErrors(t *testing.T) {
	with := func(i int, change func(*tensor.Tensor)) []tensor.Tensor {
		in := request(3, 512, 1)
		change(&in[i])
		return in
	}
	tests := []struct {
		inputs []tensor.Tensor
		want   tensor.FieldError
	}{
		{
			with(0, func(v *tensor.Tensor) { v.DType = tensor.Float64 }),
			tensor.FieldError{Field: `inputs["audio"].dtype`, Want: "fp32", Got: "fp64"},
		},
		{
			with(1, func(v *tensor.Tensor) { v.Shape = tensor.Shape{2, 3, 5} }),
			tensor.FieldError{Field: `inputs["state"].shape`, Want: "[2,?,4]", Got: "[2,3,5]"},
		},
		{
			with(2, func(v *tensor.Tensor) { v.Shape = tensor.Shape{1} }),
			tensor.FieldError{Field: `inputs["rate"].shape`, Want: "[]", Got: "[1]"},
		},
		{
			with(1, func(v *tensor.Tensor) { v.Shape = tensor.Shape{2, 4, 4} }),
			tensor.FieldError{
				Field: `inputs["state"].shape`, Want: `3 rows in dimension 1, as input "audio" brings`,
				Got: "[2,4,4]",
			},
		},
		{
			with(1, func(v *tensor.Tensor) { v.Shape = tensor.Shape{-1, -4, 4} }),
			tensor.FieldError{Field: `inputs["state"].shape`, Want: "[2,?,4]", Got: "[-1,-4,4]"},
		},
		{
			request(1<<31, 512, 1),
			tensor.FieldError{Field: `inputs["audio"].shape`, Want: "at most 2147483647 rows", Got: "2147483648"},
		},
	}
	for _, test := range tests {
		_, err := speech().Rows(test.inputs)
		got, ok := errors.AsType[*tensor.FieldError](err)
		if !ok {
			t.Errorf("got %v, want a *FieldError", err)
			continue
		}
		if diff := cmp.Diff(test.want, *got); diff != "" {
			t.Errorf("(-want +got)\n%s", diff)
		}
		if err.Error() != test.want.Field+": expected "+test.want.Want+", got "+test.want.Got {
			t.Errorf("message: %q", err)
		}
	}
}

func TestKey(t *testing.T) {
	key := func(in []tensor.Tensor) string { return string(speech().Key(nil, in)) }
	base := key(request(1, 512, 8))
	for name, test := range map[string]struct {
		inputs []tensor.Tensor
		same   bool
	}{
		"other rows":    {request(9, 512, 8), true},
		"other samples": {request(1, 513, 8), false},
		"other rate":    {request(1, 512, 16), false},
	} {
		if (key(test.inputs) == base) != test.same {
			t.Errorf("%s: joinable %t", name, !test.same)
		}
	}
	shape := string(speech().ShapeKey(nil, request(1, 512, 8)))
	if shape != string(speech().ShapeKey(nil, request(2, 512, 16))) ||
		shape == string(speech().ShapeKey(nil, request(1, 256, 8))) {
		t.Error("the shape key must depend on the open dimensions beside the batch, and on nothing else")
	}
	if string(speech().Key([]byte("prefix"), request(1, 512, 8))) != "prefix"+base {
		t.Error("Key does not append")
	}
}

// Values of unbatched inputs stand one after the other: where one ends must be part of the key.
func TestKeySeparatesValues(t *testing.T) {
	sig := &tensor.Signature{Inputs: []tensor.Spec{
		{Name: "a", DType: tensor.String, Shape: tensor.Shape{}, BatchDim: tensor.NoBatch},
		{Name: "b", DType: tensor.String, Shape: tensor.Shape{}, BatchDim: tensor.NoBatch},
	}}
	value := func(data string) tensor.Tensor { return tensor.Tensor{DType: tensor.String, Data: []byte(data)} }
	if string(sig.Key(nil, []tensor.Tensor{value("xy"), value("z")})) == string(
		sig.Key(nil, []tensor.Tensor{value("x"), value("yz")})) {
		t.Error("different values have the same key")
	}
	batchOnly := &tensor.Signature{Inputs: []tensor.Spec{{
		Name: "x", DType: tensor.Float32,
		Shape: tensor.Shape{-1, 4},
	}}}
	if key := batchOnly.Key(nil, []tensor.Tensor{{DType: tensor.Float32, Shape: tensor.Shape{5, 4}}}); len(key) != 0 {
		t.Errorf("a model with an open batch alone: got key %q, want none", key)
	}
}

// TestMost: the outputs of a run take at most Most bytes together; room is made for up to twice that, as a slab in
// another process may ask for it.
func TestMost(t *testing.T) {
	b := tensor.NewBatch(0, 2, nil)
	defer b.Free()
	b.Most = 10_000
	output := func(i, size int) (refused *tensor.TooLargeError) {
		defer func() { refused, _ = recover().(*tensor.TooLargeError) }()
		b.Output(i, tensor.Uint8, tensor.Shape{int64(size)}, size)
		return nil
	}
	for _, c := range []struct{ output, size, refused int }{
		{0, 10_001, 10_001}, {0, 6000, 0}, {1, 4001, 10_001}, {1, 4000, 0}, {0, 6000, 0},
	} {
		e := output(c.output, c.size)
		if (e != nil) != (c.refused > 0) || e != nil && *e != (tensor.TooLargeError{Bytes: c.refused, Most: b.Most}) {
			t.Errorf("output %d of %d bytes: %v", c.output, c.size, e)
		}
	}
	if room := len(b.Room(0)); !b.Reserve(0, 20_000) || len(b.Room(0)) < 20_000 || b.Reserve(0, 20_001) {
		t.Errorf("room for 20000 bytes, which is twice as much, and no more: %d, then %d", room, len(b.Room(0)))
	}
	b.Most = 0
	if e := output(0, 50_000); e != nil || !b.Reserve(1, 50_000) {
		t.Errorf("without a limit: %v", e)
	}
}
