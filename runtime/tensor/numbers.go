package tensor

import (
	"encoding/binary"
	"math"
)

// Numbers reads len(dst) elements of numbers, from element first on. Only integers beyond 2^53 are rounded.
func Numbers(dst []float64, d DType, data []byte, first int) {
	data = data[first*d.Size():]
	le := binary.LittleEndian
	switch d {
	case Float32:
		numbersOf(dst, data, 4, func(e []byte) float64 { return float64(math.Float32frombits(le.Uint32(e))) })
	case Float64:
		numbersOf(dst, data, 8, func(e []byte) float64 { return math.Float64frombits(le.Uint64(e)) })
	case Float16:
		numbersOf(dst, data, 2, func(e []byte) float64 { return float64(Float16Value(le.Uint16(e))) })
	case BFloat16:
		numbersOf(dst, data, 2, func(e []byte) float64 { return float64(BFloat16Value(le.Uint16(e))) })
	case Int8:
		numbersOf(dst, data, 1, func(e []byte) float64 { return float64(int8(e[0])) })
	case Int16:
		numbersOf(dst, data, 2, func(e []byte) float64 { return float64(int16(le.Uint16(e))) })
	case Int32:
		numbersOf(dst, data, 4, func(e []byte) float64 { return float64(int32(le.Uint32(e))) })
	case Int64:
		numbersOf(dst, data, 8, func(e []byte) float64 { return float64(int64(le.Uint64(e))) })
	case Uint8:
		numbersOf(dst, data, 1, func(e []byte) float64 { return float64(e[0]) })
	case Uint16:
		numbersOf(dst, data, 2, func(e []byte) float64 { return float64(le.Uint16(e)) })
	case Uint32:
		numbersOf(dst, data, 4, func(e []byte) float64 { return float64(le.Uint32(e)) })
	case Uint64:
		numbersOf(dst, data, 8, func(e []byte) float64 { return float64(le.Uint64(e)) })
	default: // bools and strings are no numbers
	}
}

// numbersOf calls number with each element, of so many bytes. The compiler inlines both.
func numbersOf(dst []float64, data []byte, size int, number func(element []byte) float64) {
	for i := range dst {
		dst[i] = number(data[i*size:][:size])
	}
}

// Number returns element i of a tensor of numbers that lies in one piece.
func (t Tensor) Number(i int) float64 {
	var one [1]float64
	Numbers(one[:], t.DType, t.Data, i)
	return one[0]
}
