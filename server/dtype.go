package server

import (
	weftv1 "github.com/weftserve/weft/proto/gen/weft/v1"
	"github.com/weftserve/weft/runtime/tensor"
)

// wireDTypes maps our element types to the API's.
var wireDTypes = map[tensor.DType]weftv1.DataType{
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

// form is one of the ways in which a Tensor message carries its elements.
type form uint8

const (
	formNone form = iota // no elements
	formRaw
	formFloat
	formDouble
	formInt32
	formInt64
	formUint32
	formUint64
	formBool
	formString
	forms // how many there are
)

// formNames are the names of the message's fields.
var formNames = [forms]string{
	formRaw: "raw", formFloat: "float_values", formDouble: "double_values", formInt32: "int32_values",
	formInt64: "int64_values", formUint32: "uint32_values", formUint64: "uint64_values", formBool: "bool_values",
	formString: "string_values",
}

// typedForm returns the list that belongs to an element type.
func typedForm(d tensor.DType) form {
	switch d {
	case tensor.Float16, tensor.BFloat16, tensor.Float32:
		return formFloat
	case tensor.Float64:
		return formDouble
	case tensor.Int8, tensor.Int16, tensor.Int32:
		return formInt32
	case tensor.Int64:
		return formInt64
	case tensor.Uint8, tensor.Uint16, tensor.Uint32:
		return formUint32
	case tensor.Uint64:
		return formUint64
	case tensor.Bool:
		return formBool
	case tensor.String:
		return formString
	default:
		return formNone
	}
}

// formSizes counts what each form of a message holds: bytes of raw, elements of the lists.
func formSizes(t *weftv1.Tensor) [forms]int {
	return [forms]int{
		formRaw: len(t.GetRaw()), formFloat: len(t.GetFloatValues()), formDouble: len(t.GetDoubleValues()),
		formInt32: len(t.GetInt32Values()), formInt64: len(t.GetInt64Values()), formUint32: len(t.GetUint32Values()),
		formUint64: len(t.GetUint64Values()), formBool: len(t.GetBoolValues()), formString: len(t.GetStringValues()),
	}
}
