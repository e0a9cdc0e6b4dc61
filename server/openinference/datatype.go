package openinference

import (
	"github.com/weftserve/weft/proto/gen/inference"
	"github.com/weftserve/weft/runtime/tensor"
)

// datatypes are the names of element types, and what a model's configuration calls them.
var datatypes = [...]struct {
	name   string
	config inference.DataType
}{
	tensor.Invalid: {"", inference.DataType_TYPE_INVALID},
	tensor.Bool:    {"BOOL", inference.DataType_TYPE_BOOL},
	tensor.Int8:    {"INT8", inference.DataType_TYPE_INT8}, tensor.Int16: {"INT16", inference.DataType_TYPE_INT16},
	tensor.Int32: {"INT32", inference.DataType_TYPE_INT32}, tensor.Int64: {"INT64", inference.DataType_TYPE_INT64},
	tensor.Uint8: {"UINT8", inference.DataType_TYPE_UINT8}, tensor.Uint16: {"UINT16", inference.DataType_TYPE_UINT16},
	tensor.Uint32: {"UINT32", inference.DataType_TYPE_UINT32}, tensor.Uint64: {"UINT64", inference.DataType_TYPE_UINT64},
	tensor.Float16: {"FP16", inference.DataType_TYPE_FP16}, tensor.BFloat16: {"BF16", inference.DataType_TYPE_BF16},
	tensor.Float32: {"FP32", inference.DataType_TYPE_FP32}, tensor.Float64: {"FP64", inference.DataType_TYPE_FP64},
	tensor.String: {"BYTES", inference.DataType_TYPE_STRING},
}

func datatype(d tensor.DType) string { return datatypes[d].name }
