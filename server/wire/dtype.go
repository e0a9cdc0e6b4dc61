package wire

import (
	"fmt"
	"slices"

	weftv1 "github.com/weftserve/weft/proto/gen/weft/v1"
	"github.com/weftserve/weft/runtime/tensor"
)

// dataTypes maps our element types to the API's. Entry 0, of tensor.Invalid, is DATA_TYPE_UNSPECIFIED.
var dataTypes = [...]weftv1.DataType{
	tensor.Bool:     weftv1.DataType_DATA_TYPE_BOOL,
	tensor.Int8:     weftv1.DataType_DATA_TYPE_INT8,
	tensor.Int16:    weftv1.DataType_DATA_TYPE_INT16,
	tensor.Int32:    weftv1.DataType_DATA_TYPE_INT32,
	tensor.Int64:    weftv1.DataType_DATA_TYPE_INT64,
	tensor.Uint8:    weftv1.DataType_DATA_TYPE_UINT8,
	tensor.Uint16:   weftv1.DataType_DATA_TYPE_UINT16,
	tensor.Uint32:   weftv1.DataType_DATA_TYPE_UINT32,
	tensor.Uint64:   weftv1.DataType_DATA_TYPE_UINT64,
	tensor.Float16:  weftv1.DataType_DATA_TYPE_FP16,
	tensor.BFloat16: weftv1.DataType_DATA_TYPE_BF16,
	tensor.Float32:  weftv1.DataType_DATA_TYPE_FP32,
	tensor.Float64:  weftv1.DataType_DATA_TYPE_FP64,
	tensor.String:   weftv1.DataType_DATA_TYPE_STRING,
}

// DataType returns the API's name of an element type.
func DataType(d tensor.DType) weftv1.DataType { return dataTypes[d] }

// DType returns the element type that the API's name stands for, tensor.Invalid for one that this release does not
// know.
func DType(d weftv1.DataType) tensor.DType {
	return tensor.DType(max(0, slices.Index(dataTypes[:], d))) // -1, not found: 0, tensor.Invalid
}

// describe names the data type of a message as the API spells it, for errors. One that this release does not know has
// its number.
func describe(d weftv1.DataType) string {
	if known := DType(d); known != tensor.Invalid {
		return known.String()
	}
	return fmt.Sprintf("%v (%d)", d, int32(d))
}
