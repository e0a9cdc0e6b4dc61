package tensor_test

import (
	"math"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/weftserve/weft/runtime/tensor"
)

func TestStringElements(t *testing.T) {
	want := []string{"", "a", "zero\x00byte", "漢字", ""}
	var data []byte
	for _, s := range want {
		data = tensor.AppendString(data, []byte(s))
	}
	var got []string
	for rest := data; len(rest) > 0; {
		element, next, ok := tensor.NextString(rest)
		if !ok {
			t.Fatalf("cut short at %q", rest)
		}
		got, rest = append(got, string(element)), next
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	element, _, _ := tensor.NextString(tensor.AppendString(nil, []byte("ab")))
	if _ = append(element, 'x'); cap(element) != 2 {
		t.Error("appending to an element would overwrite the next one")
	}
}

func TestNextStringCutShort(t *testing.T) {
	for _, data := range []string{
		"", "\x01", "\x01\x00\x00", "\x01\x00\x00\x00", "\x05\x00\x00\x00abcd",
		"\xff\xff\xff\xffabcd",
	} {
		if element, rest, ok := tensor.NextString([]byte(data)); ok {
			t.Errorf("%q: got %q and %q", data, element, rest)
		}
	}
}

func TestCheck(t *testing.T) {
	two := tensor.AppendString(tensor.AppendString(nil, []byte("a")), nil)
	tests := []struct {
		name  string
		value tensor.Tensor
		want  string // part of the error; empty: none
	}{
		{"floats", tensor.Tensor{DType: tensor.Float32, Shape: tensor.Shape{2, 3}, Data: make([]byte, 24)}, ""},
		{"scalar", tensor.Tensor{DType: tensor.Int64, Data: make([]byte, 8)}, ""},
		{"no elements", tensor.Tensor{DType: tensor.Int64, Shape: tensor.Shape{4, 0}}, ""},
		{"strings", tensor.Tensor{DType: tensor.String, Shape: tensor.Shape{2}, Data: two}, ""},
		{"no strings", tensor.Tensor{DType: tensor.String, Shape: tensor.Shape{0}}, ""},
		{
			"short",
			tensor.Tensor{DType: tensor.Float32, Shape: tensor.Shape{2, 3}, Data: make([]byte, 23)},
			"6 elements of 4 bytes, got 23",
		},
		{"long", tensor.Tensor{DType: tensor.Bool, Shape: tensor.Shape{2}, Data: make([]byte, 3)}, "got 3 bytes"},
		{"scalar without data", tensor.Tensor{DType: tensor.Bool}, "got 0 bytes"},
		{"negative", tensor.Tensor{DType: tensor.Bool, Shape: tensor.Shape{-1}}, "must not be negative"},
		{"bytes overflow", tensor.Tensor{DType: tensor.Int64, Shape: tensor.Shape{math.MaxInt64/8 + 1}}, "got 0 bytes"},
		{"no type", tensor.Tensor{Shape: tensor.Shape{0}}, "invalid holds no data"},
		{"few strings", tensor.Tensor{DType: tensor.String, Shape: tensor.Shape{3}, Data: two}, "3 strings, got 2"},
		{"many strings", tensor.Tensor{DType: tensor.String, Shape: tensor.Shape{1}, Data: two}, "1 strings, got 2"},
		{
			"cut string",
			tensor.Tensor{DType: tensor.String, Shape: tensor.Shape{2}, Data: two[:len(two)-1]},
			"element 1 is cut short",
		},
		{
			"strings overflow",
			tensor.Tensor{DType: tensor.String, Shape: tensor.Shape{1 << 40, 1 << 40}},
			"must fit in 63 bits",
		},
	}
	for _, test := range tests {
		err := test.value.Check()
		switch {
		case test.want == "" && err != nil:
			t.Errorf("%s: %v", test.name, err)
		case test.want != "" && (err == nil || !strings.Contains(err.Error(), test.want)):
			t.Errorf("%s: got %v, want %q", test.name, err, test.want)
		}
	}
}

func TestSignature(t *testing.T) {
	sig := &tensor.Signature{
		Inputs:  []tensor.Spec{{Name: "a"}, {Name: "b"}},
		Outputs: []tensor.Spec{{Name: "b"}},
		Notes:   []string{"note"},
	}
	got := []int{sig.Input("a"), sig.Input("b"), sig.Input("c"), sig.Output("b"), sig.Output("a")}
	if diff := cmp.Diff([]int{0, 1, -1, 0, -1}, got); diff != "" {
		t.Errorf("positions (-want +got)\n%s", diff)
	}
	clone := sig.Clone()
	if diff := cmp.Diff(sig, clone); diff != "" {
		t.Errorf("clone (-want +got)\n%s", diff)
	}
	clone.Inputs[0].BatchDim, clone.Outputs[0].Name, clone.Notes[0] = 5, "z", "changed"
	if sig.Inputs[0].BatchDim != 0 || sig.Outputs[0].Name != "b" || sig.Notes[0] != "note" {
		t.Errorf("writing to the clone changed the original: %+v", sig)
	}
}
