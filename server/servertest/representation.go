// Package servertest is the fixture of the server's tests.
package servertest

import (
	"math"

	weftv1 "github.com/weftserve/weft/proto/gen/weft/v1"
	"github.com/weftserve/weft/runtime/tensor"
)

// Representation is two elements of an element type, raw and as the typed list, whose message has neither type nor
// shape. The raw bytes are those of the API: little-endian, and texts with their lengths before them.
type Representation struct {
	DType tensor.DType
	Raw   string
	Typed *weftv1.Tensor
}

// Representations are of every element type.
var Representations = []Representation{
	{tensor.Bool, "\x00\x01", &weftv1.Tensor{BoolValues: []bool{false, true}}},
	{tensor.Int8, "\x80\x7f", &weftv1.Tensor{Int32Values: []int32{-128, 127}}},
	{tensor.Int16, "\x00\x80\xff\x7f", &weftv1.Tensor{Int32Values: []int32{-32768, 32767}}},
	{tensor.Int32, "\xff\xff\xff\xff\x04\x03\x02\x01", &weftv1.Tensor{Int32Values: []int32{-1, 0x01020304}}},
	{tensor.Int64, "\xfe\xff\xff\xff\xff\xff\xff\xff\x08\x07\x06\x05\x04\x03\x02\x01", &weftv1.Tensor{
		Int64Values: []int64{-2, 0x0102030405060708},
	}},
	{tensor.Uint8, "\x00\xff", &weftv1.Tensor{Uint32Values: []uint32{0, 255}}},
	{tensor.Uint16, "\x00\x00\xff\xff", &weftv1.Tensor{Uint32Values: []uint32{0, 65535}}},
	{tensor.Uint32, "\x00\x00\x00\x00\xff\xff\xff\xff", &weftv1.Tensor{Uint32Values: []uint32{0, math.MaxUint32}}},
	{tensor.Uint64, "\x01\x00\x00\x00\x00\x00\x00\x00\xff\xff\xff\xff\xff\xff\xff\xff", &weftv1.Tensor{
		Uint64Values: []uint64{1, math.MaxUint64},
	}},
	{tensor.Float16, "\x00\x3c\x00\xc0", &weftv1.Tensor{FloatValues: []float32{1, -2}}},
	{tensor.BFloat16, "\x80\x3f\x00\xc0", &weftv1.Tensor{FloatValues: []float32{1, -2}}},
	{tensor.Float32, "\x00\x00\x80\x3f\x00\x00\x00\xc0", &weftv1.Tensor{FloatValues: []float32{1, -2}}},
	{tensor.Float64, "\x00\x00\x00\x00\x00\x00\xf0\x3f\x00\x00\x00\x00\x00\x00\x00\xc0", &weftv1.Tensor{
		DoubleValues: []float64{1, -2},
	}},
	{tensor.String, "\x02\x00\x00\x00\xff\x00\x00\x00\x00\x00", &weftv1.Tensor{StringValues: [][]byte{{0xff, 0}, {}}}},
}
