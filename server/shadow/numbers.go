package shadow

import (
	"encoding/binary"
	"math"

	"github.com/weftserve/weft/runtime/tensor"
)

// numbers reads len(dst) elements of numbers, from element first on. Only integers beyond 2^53 are rounded.
func numbers(dst []float64, d tensor.DType, data []byte, first int) {
	size := d.Size()
	data = data[first*size:][:len(dst)*size]
	le := binary.LittleEndian
	switch d {
	case tensor.Float32:
		for i := range dst {
			dst[i] = float64(math.Float32frombits(le.Uint32(data[4*i:])))
		}
	case tensor.Float64:
		for i := range dst {
			dst[i] = math.Float64frombits(le.Uint64(data[8*i:]))
		}
	case tensor.Float16:
		for i := range dst {
			dst[i] = float64(tensor.Float16Value(le.Uint16(data[2*i:])))
		}
	case tensor.BFloat16:
		for i := range dst {
			dst[i] = float64(tensor.BFloat16Value(le.Uint16(data[2*i:])))
		}
	case tensor.Int8:
		for i := range dst {
			dst[i] = float64(int8(data[i]))
		}
	case tensor.Int16:
		for i := range dst {
			dst[i] = float64(int16(le.Uint16(data[2*i:])))
		}
	case tensor.Int32:
		for i := range dst {
			dst[i] = float64(int32(le.Uint32(data[4*i:])))
		}
	case tensor.Int64:
		for i := range dst {
			dst[i] = float64(int64(le.Uint64(data[8*i:])))
		}
	case tensor.Uint8:
		for i := range dst {
			dst[i] = float64(data[i])
		}
	case tensor.Uint16:
		for i := range dst {
			dst[i] = float64(le.Uint16(data[2*i:]))
		}
	case tensor.Uint32:
		for i := range dst {
			dst[i] = float64(le.Uint32(data[4*i:]))
		}
	case tensor.Uint64:
		for i := range dst {
			dst[i] = float64(le.Uint64(data[8*i:]))
		}
	default: // bools and strings are no numbers
	}
}
