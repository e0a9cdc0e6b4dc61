package shadow

import (
	"encoding/binary"
	"math"

	"github.com/weftserve/weft/runtime/tensor"
)

// numbers reads len(dst) elements of numbers, from element first on. Only integers beyond 2^53 are rounded.
func numbers(dst []float64, d tensor.DType, data []byte, first int) {
	data = data[first*d.Size():]
	le := binary.LittleEndian
	switch d {
	case tensor.Float32:
		fill(dst, data, 4, func(e []byte) float64 { return float64(math.Float32frombits(le.Uint32(e))) })
	case tensor.Float64:
		fill(dst, data, 8, func(e []byte) float64 { return math.Float64frombits(le.Uint64(e)) })
	case tensor.Float16:
		fill(dst, data, 2, func(e []byte) float64 { return float64(tensor.Float16Value(le.Uint16(e))) })
	case tensor.BFloat16:
		fill(dst, data, 2, func(e []byte) float64 { return float64(tensor.BFloat16Value(le.Uint16(e))) })
	case tensor.Int8:
		for i, b := range data[:len(dst)] {
			dst[i] = float64(int8(b))
		}
	case tensor.Int16:
		fill(dst, data, 2, func(e []byte) float64 { return float64(int16(le.Uint16(e))) })
	case tensor.Int32:
		fill(dst, data, 4, func(e []byte) float64 { return float64(int32(le.Uint32(e))) })
	case tensor.Int64:
		fill(dst, data, 8, func(e []byte) float64 { return float64(int64(le.Uint64(e))) })
	case tensor.Uint8:
		for i, b := range data[:len(dst)] {
			dst[i] = float64(b)
		}
	case tensor.Uint16:
		fill(dst, data, 2, func(e []byte) float64 { return float64(le.Uint16(e)) })
	case tensor.Uint32:
		fill(dst, data, 4, func(e []byte) float64 { return float64(le.Uint32(e)) })
	case tensor.Uint64:
		fill(dst, data, 8, func(e []byte) float64 { return float64(le.Uint64(e)) })
	default: // bools and strings are no numbers
	}
}

// fill calls number with each element, of so many bytes. The compiler inlines both.
func fill(dst []float64, data []byte, size int, number func(element []byte) float64) {
	for i := range dst {
		dst[i] = number(data[i*size:][:size])
	}
}
