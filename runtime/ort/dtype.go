package ort

import (
	onnxruntime "github.com/yalue/onnxruntime_go"

	"github.com/weftserve/weft/runtime/tensor"
)

// elementTypes maps our element types to ONNX Runtime's numbers. Those it lacks (complex, 4- and 8-bit floats, 2- and
// 4-bit integers) cannot be served.
var elementTypes = [...]onnxruntime.TensorElementDataType{
	tensor.Bool:  onnxruntime.TensorElementDataTypeBool,
	tensor.Int8:  onnxruntime.TensorElementDataTypeInt8,
	tensor.Int16: onnxruntime.TensorElementDataTypeInt16,
	tensor.Int32: onnxruntime.TensorElementDataTypeInt32,
	tensor.Int64: onnxruntime.TensorElementDataTypeInt64,

	tensor.Uint8:  onnxruntime.TensorElementDataTypeUint8,
	tensor.Uint16: onnxruntime.TensorElementDataTypeUint16,
	tensor.Uint32: onnxruntime.TensorElementDataTypeUint32,
	tensor.Uint64: onnxruntime.TensorElementDataTypeUint64,

	tensor.Float16:  onnxruntime.TensorElementDataTypeFloat16,
	tensor.BFloat16: onnxruntime.TensorElementDataTypeBFloat16,
	tensor.Float32:  onnxruntime.TensorElementDataTypeFloat,
	tensor.Float64:  onnxruntime.TensorElementDataTypeDouble,
	tensor.String:   onnxruntime.TensorElementDataTypeString,
}

// dtypeOf is the inverse; Invalid for a type that cannot be served.
func dtypeOf(element onnxruntime.TensorElementDataType) tensor.DType {
	for d, e := range elementTypes {
		if e == element && e != onnxruntime.TensorElementDataTypeUndefined {
			return tensor.DType(d)
		}
	}
	return tensor.Invalid
}
