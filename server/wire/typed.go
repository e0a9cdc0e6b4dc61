package wire

import (
	"encoding/binary"
	"fmt"
	"math"

	weftv1 "github.com/weftserve/weft/proto/gen/weft/v1"
	"github.com/weftserve/weft/runtime/tensor"
)

var little = binary.LittleEndian

// unpack is the inverse of pack: it writes the elements of src into the typed list of dst. src must be whole
// (tensor.Tensor.Check). It panics for tensor.Invalid, which no signature has.
func unpack(dst *weftv1.Tensor, src tensor.Tensor) {
	switch d := src.Data; src.DType {
	case tensor.Float16:
		dst.FloatValues = unpackList(d, 2, func(b []byte) float32 { return tensor.Float16Value(little.Uint16(b)) })
	case tensor.BFloat16:
		dst.FloatValues = unpackList(d, 2, func(b []byte) float32 { return tensor.BFloat16Value(little.Uint16(b)) })
	case tensor.Float32:
		dst.FloatValues = unpackList(d, 4, func(b []byte) float32 { return math.Float32frombits(little.Uint32(b)) })
	case tensor.Float64:
		dst.DoubleValues = unpackList(d, 8, func(b []byte) float64 { return math.Float64frombits(little.Uint64(b)) })
	case tensor.Int8:
		dst.Int32Values = unpackList(d, 1, func(b []byte) int32 { return int32(int8(b[0])) })
	case tensor.Int16:
		dst.Int32Values = unpackList(d, 2, func(b []byte) int32 { return int32(int16(little.Uint16(b))) })
	case tensor.Int32:
		dst.Int32Values = unpackList(d, 4, func(b []byte) int32 { return int32(little.Uint32(b)) })
	case tensor.Int64:
		dst.Int64Values = unpackList(d, 8, func(b []byte) int64 { return int64(little.Uint64(b)) })
	case tensor.Uint8:
		dst.Uint32Values = unpackList(d, 1, func(b []byte) uint32 { return uint32(b[0]) })
	case tensor.Uint16:
		dst.Uint32Values = unpackList(d, 2, func(b []byte) uint32 { return uint32(little.Uint16(b)) })
	case tensor.Uint32:
		dst.Uint32Values = unpackList(d, 4, little.Uint32)
	case tensor.Uint64:
		dst.Uint64Values = unpackList(d, 8, little.Uint64)
	case tensor.Bool:
		dst.BoolValues = unpackList(d, 1, func(b []byte) bool { return b[0] != 0 })
	case tensor.String:
		dst.StringValues = unpackStrings(d)
	default:
		panic(fmt.Sprintf("no typed list for %v", src.DType))
	}
}

func unpackList[T any](data []byte, size int, get func([]byte) T) []T {
	values := make([]T, len(data)/size)
	for i := range values {
		values[i] = get(data[i*size : (i+1)*size])
	}
	return values
}

// unpackStrings returns elements that alias data.
func unpackStrings(data []byte) [][]byte {
	var values [][]byte
	for {
		element, rest, ok := tensor.NextString(data)
		if !ok {
			return values
		}
		values = append(values, element)
		data = rest
	}
}
