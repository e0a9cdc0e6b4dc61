package wire

import (
	"encoding/binary"
	"fmt"
	"math"
	"slices"
	"strconv"

	weftv1 "github.com/weftserve/weft/proto/gen/weft/v1"
	"github.com/weftserve/weft/runtime/tensor"
)

var little = binary.LittleEndian

// pack turns the typed list of an element type into the layout of tensor.Tensor.Data. bad is the index of the first
// element that the type cannot hold, or -1. It panics for tensor.Invalid, which no signature has.
func pack(dtype tensor.DType, t *weftv1.Tensor) (data []byte, bad int) {
	switch dtype {
	case tensor.Float16:
		return packAll(t.GetFloatValues(), 2, func(b []byte, v float32) { little.PutUint16(b, tensor.Float16Bits(v)) })
	case tensor.BFloat16:
		return packAll(t.GetFloatValues(), 2, func(b []byte, v float32) { little.PutUint16(b, tensor.BFloat16Bits(v)) })
	case tensor.Float32:
		return packAll(t.GetFloatValues(), 4, func(b []byte, v float32) { little.PutUint32(b, math.Float32bits(v)) })
	case tensor.Float64:
		return packAll(t.GetDoubleValues(), 8, func(b []byte, v float64) { little.PutUint64(b, math.Float64bits(v)) })
	case tensor.Int8:
		return packWithin(t.GetInt32Values(), math.MinInt8, math.MaxInt8, 1, func(b []byte, v int32) { b[0] = byte(v) })
	case tensor.Int16:
		return packWithin(t.GetInt32Values(), math.MinInt16, math.MaxInt16, 2,
			func(b []byte, v int32) { little.PutUint16(b, uint16(v)) })
	case tensor.Int32:
		return packAll(t.GetInt32Values(), 4, func(b []byte, v int32) { little.PutUint32(b, uint32(v)) })
	case tensor.Int64:
		return packAll(t.GetInt64Values(), 8, func(b []byte, v int64) { little.PutUint64(b, uint64(v)) })
	case tensor.Uint8:
		return packWithin(t.GetUint32Values(), 0, math.MaxUint8, 1, func(b []byte, v uint32) { b[0] = byte(v) })
	case tensor.Uint16:
		return packWithin(t.GetUint32Values(), 0, math.MaxUint16, 2,
			func(b []byte, v uint32) { little.PutUint16(b, uint16(v)) })
	case tensor.Uint32:
		return packAll(t.GetUint32Values(), 4, little.PutUint32)
	case tensor.Uint64:
		return packAll(t.GetUint64Values(), 8, little.PutUint64)
	case tensor.Bool:
		return packAll(t.GetBoolValues(), 1, func(b []byte, v bool) {
			if v {
				b[0] = 1
			}
		})
	case tensor.String:
		return packStrings(t.GetStringValues()), -1
	default:
		panic(fmt.Sprintf("no typed list for %v", dtype))
	}
}

// packAll writes each value into size bytes of the result.
func packAll[T any](values []T, size int, put func(dst []byte, v T)) (data []byte, bad int) {
	data = make([]byte, len(values)*size)
	for i, v := range values {
		put(data[i*size:(i+1)*size], v)
	}
	return data, -1
}

// packWithin is packAll of values from low to high. bad is the index of the first that is not within.
func packWithin[T int32 | uint32](values []T, low, high T, size int, put func([]byte, T)) (data []byte, bad int) {
	if bad := slices.IndexFunc(values, func(v T) bool { return v < low || v > high }); bad >= 0 {
		return nil, bad
	}
	return packAll(values, size, put)
}

func packStrings(values [][]byte) []byte {
	size := 0
	for _, v := range values {
		size += 4 + len(v)
	}
	data := make([]byte, 0, size)
	for _, v := range values {
		data = tensor.AppendString(data, v)
	}
	return data
}

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

// describeRange says which integers an element type holds.
func describeRange(d tensor.DType) string {
	bits := 8 * d.Size()
	if d >= tensor.Uint8 && d <= tensor.Uint64 {
		return fmt.Sprintf("%v (0 to %d)", d, uint64(1)<<bits-1)
	}
	return fmt.Sprintf("%v (%d to %d)", d, -int64(1)<<(bits-1), int64(1)<<(bits-1)-1)
}

// describeElement writes element i of a list of integers that are narrowed.
func describeElement(l list, m *weftv1.Tensor, i int) string {
	if l == listUint32 {
		return strconv.FormatUint(uint64(m.GetUint32Values()[i]), 10)
	}
	return strconv.Itoa(int(m.GetInt32Values()[i]))
}
