// Package wire carries tensors to and from weft.v1 messages.
//
// A message carries the elements of a tensor in one of two forms: raw, which is the layout of tensor.Tensor.Data, or in
// a typed list. There is one for each kind of element. [Decode] reads a message for an input that is known, [Tensor]
// reads one by the element type that it names itself, and [Encode] writes one. A client and a replay go through these
// three.
//
// The server's codec has an [Inbound] for each request. It decodes a plain message by hand, which leaves raw elements
// and packed lists of numbers where they lie; others are decoded by proto.Unmarshal. Type scanned says which messages
// are plain. An answer whose outputs are all raw is encoded by hand, too ([Answer]); others are encoded by generated
// code ([Response]).
package wire

import (
	"encoding/binary"
	"fmt"
	"math"

	"google.golang.org/protobuf/encoding/protowire"

	weftv1 "github.com/weftserve/weft/proto/gen/weft/v1"
	"github.com/weftserve/weft/runtime/tensor"
	"github.com/weftserve/weft/server/wire/elements"
)

// Decode reads the message that came for an input, and reports in which form the elements came. The error is a
// *tensor.FieldError whose field is the part of the message, "" for the whole of it.
//
// The tensor's shape, and its data if they came raw, are the message's own memory, not copies.
func Decode(input *tensor.Spec, m *weftv1.Tensor) (tensor.Tensor, elements.Form, error) {
	return decode(input, m, elements.Elements{})
}

// decode reads a message. left are the elements that Inbound.Scan left where they lay, and then the message itself has
// none; left is empty where the message has them.
func decode(input *tensor.Spec, m *weftv1.Tensor, left elements.Elements) (tensor.Tensor, elements.Form, error) {
	if m.GetDtype() != dataTypes[input.DType] {
		return tensor.Tensor{}, elements.Absent, fault("dtype", input.DType.String(), describe(m.GetDtype()))
	}
	came := cameOf(m, left)
	return protocol.Decode(input, m.GetShape(), &came, func(l elements.List) []byte {
		return elements.Packed(m.ProtoReflect(), field(l))
	})
}

// Tensor reads a message by the element type that it names itself, such as an output. The error is as of Decode.
func Tensor(m *weftv1.Tensor) (tensor.Tensor, error) {
	as := tensor.Spec{DType: DType(m.GetDtype()), Shape: m.GetShape()}
	if as.DType == tensor.Invalid {
		return tensor.Tensor{}, fault("dtype", "an element type that this release knows", describe(m.GetDtype()))
	}
	t, _, err := Decode(&as, m)
	return t, err
}

// fault returns the error of a part of a tensor; the pipeline adds the name of the input.
func fault(part, want, got string) error {
	return &tensor.FieldError{Field: part, Want: want, Got: got}
}

// protocol is weft.v1: texts are never raw, and fp16 and bf16 may be in the list of floats.
var protocol = elements.Protocol{Names: [elements.Lists]string{
	elements.Raw: "raw", elements.Float: "float_values", elements.Double: "double_values",
	elements.Int32: "int32_values", elements.Int64: "int64_values", elements.Uint32: "uint32_values",
	elements.Uint64: "uint64_values", elements.Bool: "bool_values", elements.Texts: "string_values",
}}

// field returns the number of a list in the message Tensor, and listOf the list of a number. The constants of package
// elements are in the order of the fields of Tensor, from raw (1 and 3) to string_values (9 and 11).
func field(l elements.List) protowire.Number { return protowire.Number(l) + 2 }

func listOf(number uint64) elements.List { return elements.List(number - 2) }

// cameOf counts the elements in each field of a message, so that elements.Protocol can refuse two representations. What
// is left does not count here.
func cameOf(m *weftv1.Tensor, left elements.Elements) elements.Came {
	return elements.Came{Raw: m.GetRaw(), Texts: m.GetStringValues(), Left: left, Sizes: elements.Sizes{
		elements.Raw: len(m.GetRaw()), elements.Float: len(m.GetFloatValues()),
		elements.Double: len(m.GetDoubleValues()), elements.Int32: len(m.GetInt32Values()),
		elements.Int64: len(m.GetInt64Values()), elements.Uint32: len(m.GetUint32Values()),
		elements.Uint64: len(m.GetUint64Values()), elements.Bool: len(m.GetBoolValues()),
		elements.Texts: len(m.GetStringValues()),
	}}
}

// Encode returns the message of a tensor, raw or in a typed list; strings have no raw form. The tensor must be whole
// (tensor.Tensor.Check). Its shape, raw data, and strings are not copied: the message aliases them.
func Encode(t tensor.Tensor, raw bool) *weftv1.Tensor {
	m := &weftv1.Tensor{Dtype: dataTypes[t.DType], Shape: t.Shape}
	if raw && t.DType != tensor.String {
		m.Raw = t.Data
	} else {
		unpack(m, t)
	}
	return m
}

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

// unpackList reads elements of size bytes each. Bytes beyond the last whole element are not read; a whole tensor has
// none.
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
