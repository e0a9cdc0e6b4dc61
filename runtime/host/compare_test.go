package host

import (
	"encoding/binary"
	"math"
	"testing"

	"github.com/weftserve/weft/runtime/tensor"
)

func TestFloat16(t *testing.T) {
	for _, test := range []struct {
		bits  uint16
		value float64
	}{
		// Values from the table of examples in IEEE 754-2008, binary16.
		{0x3c00, 1}, {0xc000, -2}, {0x7bff, 65504}, {0x0400, math.Ldexp(1, -14)}, {0x0001, math.Ldexp(1, -24)}, {0x3555, 0.333251953125},
		{0x7c00, math.Inf(1)}, {0xfc00, math.Inf(-1)}, {0, 0},
	} {
		if got := float64(fromFloat16(test.bits)); got != test.value {
			t.Errorf("%#04x is %v, want %v", test.bits, got, test.value)
		}
		if subnormal := test.bits&0x7c00 == 0; !subnormal && !math.IsInf(test.value, 0) {
			if got := toFloat16(float32(test.value)); got != test.bits {
				t.Errorf("%v is %#04x, want %#04x", test.value, got, test.bits)
			}
		}
	}
	if !math.IsNaN(float64(fromFloat16(0x7e00))) {
		t.Error("0x7e00 is a number")
	}
}

func TestDeviation(t *testing.T) {
	inf, nan := math.Inf(1), math.NaN()
	doubles := func(values ...float64) tensor.Tensor {
		t := tensor.Tensor{DType: tensor.Float64, Shape: tensor.Shape{int64(len(values))}}
		for _, v := range values {
			t.Data = binary.LittleEndian.AppendUint64(t.Data, math.Float64bits(v))
		}
		return t
	}
	for _, test := range []struct {
		got, want tensor.Tensor
		scale     float64
		expect    float64
	}{
		{doubles(1, 2), doubles(1, 2), 2, 0},
		{doubles(1, 3), doubles(1, 2), 4, 0.25},
		{doubles(nan, 2), doubles(math.Float64frombits(0x7ff8000000000123), 2), 4, 0},
		{doubles(nan, 2), doubles(1, 2), 4, inf},
		{doubles(1, 2), doubles(1, nan), 4, inf},
		{doubles(inf), doubles(inf), 1, 0},
		{doubles(inf), doubles(-inf), 1, inf},
		{doubles(0.1), doubles(0), 0, inf},
		{doubles(0), doubles(math.Copysign(0, -1)), 0, 0},
		{tensor.Tensor{DType: tensor.Int8, Shape: tensor.Shape{1}, Data: []byte{1}}, tensor.Tensor{DType: tensor.Int8, Shape: tensor.Shape{1}, Data: []byte{2}}, 2, inf},
	} {
		got, err := deviation(test.got, test.want, test.scale)
		if err != nil || got != test.expect {
			t.Errorf("%v against %v at scale %v: %v, %v; want %v", test.got, test.want, test.scale, got, err, test.expect)
		}
	}
	if _, err := deviation(doubles(1), doubles(1, 2), 1); err == nil {
		t.Error("another shape is no error")
	}
}
