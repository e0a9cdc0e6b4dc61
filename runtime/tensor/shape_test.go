package tensor_test

import (
	"math"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/weftserve/weft/runtime/tensor"
)

func TestElements(t *testing.T) {
	const huge = 1 << 32
	tests := []struct {
		shape tensor.Shape
		want  int64
		ok    bool
	}{
		{nil, 1, true},
		{tensor.Shape{}, 1, true},
		{tensor.Shape{7}, 7, true},
		{tensor.Shape{2, 3, 4}, 24, true},
		{tensor.Shape{2, 0, 4}, 0, true},
		{tensor.Shape{math.MaxInt64}, math.MaxInt64, true},
		{tensor.Shape{1, math.MaxInt64, 1}, math.MaxInt64, true},
		{tensor.Shape{huge, huge / 4}, 1 << 62, true},
		{tensor.Shape{huge, huge / 2}, 0, false},
		{tensor.Shape{huge, huge}, 0, false},                   // 2^64: 0 in 64 bits
		{tensor.Shape{huge, huge, 0}, 0, false},                // absurd anyway
		{tensor.Shape{math.MaxInt64, 2}, 0, false},             // -2 in 64 bits
		{tensor.Shape{3, math.MaxInt64/3 + 1}, 0, false},       // one too many
		{tensor.Shape{tensor.Unknown}, 0, false},               //
		{tensor.Shape{0, -5}, 0, false},                        //
		{tensor.Shape{math.MinInt64, math.MinInt64}, 0, false}, // 0 in 64 bits
	}
	for _, test := range tests {
		if got, ok := test.shape.Elements(); got != test.want || ok != test.ok {
			t.Errorf("%v: got %d, %t, want %d, %t", test.shape, got, ok, test.want, test.ok)
		}
	}
}

func TestAccepts(t *testing.T) {
	tests := []struct {
		declared, value tensor.Shape
		want            bool
	}{
		{tensor.Shape{-1, 4}, tensor.Shape{9, 4}, true},
		{tensor.Shape{-1, 4}, tensor.Shape{0, 4}, true},
		{tensor.Shape{-1, 4}, tensor.Shape{9, 5}, false},
		{tensor.Shape{-1, 4}, tensor.Shape{4}, false},
		{tensor.Shape{4}, tensor.Shape{1, 4}, false},
		{tensor.Shape{}, nil, true},
		{tensor.Shape{}, tensor.Shape{1}, false},
	}
	for _, test := range tests {
		if got := test.declared.Accepts(test.value); got != test.want {
			t.Errorf("%v accepts %v: got %t", test.declared, test.value, got)
		}
	}
}

func TestKnownWithAndString(t *testing.T) {
	s := tensor.Shape{tensor.Unknown, 4}
	one := s.With(0, 1)
	if s.Known() || !one.Known() || !(tensor.Shape{}).Known() {
		t.Errorf("known: got %t, %t, want false, true", s.Known(), one.Known())
	}
	if diff := cmp.Diff([]tensor.Shape{{-1, 4}, {1, 4}}, []tensor.Shape{s, one}); diff != "" {
		t.Errorf("With (-want +got)\n%s", diff)
	}
	if s.String() != "[?,4]" || (tensor.Shape{}).String() != "[]" {
		t.Errorf("got %v and %v, want [?,4] and []", s, tensor.Shape{})
	}
}
