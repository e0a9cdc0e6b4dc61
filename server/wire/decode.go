package wire

import (
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

// decode reads a message whose elements may lie elsewhere.
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

func fault(part, want, got string) error {
	return &tensor.FieldError{Field: part, Want: want, Got: got}
}
