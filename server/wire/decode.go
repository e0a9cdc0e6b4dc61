package wire

import (
	"fmt"
	"slices"

	weftv1 "github.com/weftserve/weft/proto/gen/weft/v1"
	"github.com/weftserve/weft/runtime/tensor"
	"github.com/weftserve/weft/server/predict"
)

// Decode reads the message that came for an input, and reports in which form the elements came. The error is a
// *tensor.FieldError whose field is the part of the message, "" for the whole of it.
//
// The tensor's shape, and its data if they came raw, are the message's own memory, not copies. Otherwise decoding
// allocates at most 8 bytes for each byte received (an int64 that travelled as one byte); a size that a message merely
// claims costs nothing.
func Decode(input *tensor.Spec, m *weftv1.Tensor) (tensor.Tensor, Form, error) {
	dtype := input.DType
	if m.GetDtype() != dataTypes[dtype] {
		return tensor.Tensor{}, None, fault("dtype", dtype.String(), describe(m.GetDtype()))
	}
	out := tensor.Tensor{DType: dtype, Shape: m.GetShape()}
	count, err := predict.Elements(input, out.Shape)
	if err != nil {
		return tensor.Tensor{}, None, err
	}
	found := sizesOf(m)
	used, err := usedList(dtype, out.Shape, count, &found)
	if err != nil || used == listNone {
		return out, None, err
	}
	form, size := Typed, int64(found[used])
	if used == listRaw {
		form = Raw
		out.Data, err = rawData(&out, count, m.GetRaw())
	} else {
		out.Data, err = listData(&out, count, used, size, m)
	}
	return out, form, err
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

func rawData(t *tensor.Tensor, count int64, raw []byte) ([]byte, error) {
	if want := count * int64(t.DType.Size()); int64(len(raw)) != want {
		return nil, fault("raw",
			fmt.Sprintf("%d bytes (shape %v of %v)", want, t.Shape, t.DType), fmt.Sprintf("%d bytes", len(raw)))
	}
	if t.DType == tensor.Bool {
		if i := slices.IndexFunc(raw, func(b byte) bool { return b > 1 }); i >= 0 {
			return nil, fault("raw", "0 or 1 for each bool", fmt.Sprintf("%d at byte %d", raw[i], i))
		}
	}
	return raw, nil
}

func listData(t *tensor.Tensor, count int64, used list, size int64, m *weftv1.Tensor) ([]byte, error) {
	if size != count {
		return nil, fault(listNames[used],
			fmt.Sprintf("%d elements (shape %v)", count, t.Shape), fmt.Sprintf("%d elements", size))
	}
	data, bad := pack(t.DType, m)
	if bad >= 0 {
		element := fmt.Sprintf("%s[%d]", listNames[used], bad)
		return nil, fault(element, describeRange(t.DType), describeElement(used, m, bad))
	}
	return data, nil
}

func fault(part, want, got string) error {
	return &tensor.FieldError{Field: part, Want: want, Got: got}
}
