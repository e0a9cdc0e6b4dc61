package main

import (
	"encoding/binary"
	"testing"

	"github.com/weftserve/weft/runtime/tensor"
	"github.com/weftserve/weft/runtime/tensor/compare"
)

func TestCompare(t *testing.T) {
	s := &suite{bounds: gpuBounds}
	halves := func(values ...float32) (data []byte) {
		for _, v := range values {
			data = binary.LittleEndian.AppendUint16(data, tensor.Float16Bits(v))
		}
		return data
	}
	for _, test := range []struct {
		name      string
		dtype     tensor.DType
		want, got []byte
		within    bool
	}{
		{"fp32 within a thousandth of the largest value", tensor.Float32, floats(100, 1), floats(100.09, 1.09), true},
		{"fp32 beyond it", tensor.Float32, floats(100, 1), floats(100, 1.11), false},
		{"fp16 is allowed more", tensor.Float16, halves(100, 1), halves(100.9, 1), true},
		{"fp16 beyond that", tensor.Float16, halves(100, 1), halves(101.5, 1), false},
		{"bf16 is allowed still more", tensor.BFloat16, []byte{0xC8, 0x42}, []byte{0xCD, 0x42}, true}, // 100 and 102.5
		{"bf16 beyond that", tensor.BFloat16, []byte{0xC8, 0x42}, []byte{0xD0, 0x42}, false},          // 100 and 104
		{"integers are equal", tensor.Int8, []byte{100, 1}, []byte{100, 1}, true},
		{"or not", tensor.Int8, []byte{100, 1}, []byte{100, 2}, false},
	} {
		output := func(data []byte) []compare.Output {
			return []compare.Output{{
				Name: "y",
				Tensor: tensor.Tensor{
					DType: test.dtype, Shape: tensor.Shape{int64(len(data) / test.dtype.Size())},
					Data: data,
				},
			}}
		}
		if d := s.compare("here", output(test.want), output(test.got)); d.within != test.within {
			t.Errorf("%s: within %v (%v)", test.name, d.within, d)
		}
		if d := s.compare("here", output(test.want), nil); d.within {
			t.Errorf("%s: an answer without the output is as expected", test.name)
		}
	}
}

func floats(values ...float32) (data []byte) {
	for _, v := range values {
		data, _ = binary.Append(data, binary.LittleEndian, v) // a number always can be
	}
	return data
}
