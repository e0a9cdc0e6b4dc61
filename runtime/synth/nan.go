package synth

import (
	"encoding/binary"

	"github.com/weftserve/weft/runtime/tensor"
)

// findNaN returns the position of the first element that is not a number, or -1.
func findNaN(t tensor.Tensor) int {
	if !t.DType.IsFloat() {
		return -1
	}
	size := t.DType.Size()
	for i := 0; i < len(t.Data); i += size {
		if isNaN(t.DType, t.Data[i:]) {
			return i / size
		}
	}
	return -1
}

// isNaN: without its sign, the bits of a NaN are a larger number than those of infinity.
func isNaN(d tensor.DType, element []byte) bool {
	switch d {
	case tensor.Float16:
		return binary.LittleEndian.Uint16(element)&0x7fff > 0x7c00
	case tensor.BFloat16:
		return binary.LittleEndian.Uint16(element)&0x7fff > 0x7f80
	case tensor.Float32:
		return binary.LittleEndian.Uint32(element)&0x7fffffff > 0x7f800000
	default: // Float64
		return binary.LittleEndian.Uint64(element)&0x7fffffffffffffff > 0x7ff0000000000000
	}
}
