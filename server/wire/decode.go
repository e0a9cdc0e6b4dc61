package wire

import (
	"fmt"
	"slices"
	"strconv"

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
	return decode(input, m, elements{})
}

// decode reads a message whose elements may lie elsewhere.
func decode(input *tensor.Spec, m *weftv1.Tensor, e elements) (tensor.Tensor, Form, error) {
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
	if e.list != listNone {
		found[e.list] = e.count
	}
	used, err := usedList(dtype, out.Shape, count, &found)
	switch {
	case err != nil || used == listNone:
		return out, None, err
	case used == listRaw:
		out.Data, out.Pieces = m.GetRaw(), e.pieces
		return out, Raw, checkRaw(&out, count)
	case int64(found[used]) != count:
		return out, Typed, fault(listNames[used],
			fmt.Sprintf("%d elements (shape %v)", count, out.Shape), fmt.Sprintf("%d elements", found[used]))
	case used == listString:
		out.Data = packStrings(m.GetStringValues())
		return out, Typed, nil
	case e.list == listNone:
		e = elements{used, found[used], [][]byte{packed(m, used)}}
	}
	return out, Typed, e.fill(&out)
}

// fill sets the data of a tensor to a list that has as many elements.
func (e *elements) fill(t *tensor.Tensor) error {
	if t.DType == tensor.Float32 || t.DType == tensor.Float64 { // they lie in a message as they do in a tensor
		if t.Pieces = e.pieces; len(e.pieces) == 1 {
			t.Data, t.Pieces = e.pieces[0], nil
		}
		return nil
	}
	data, bad, value := pack(t.DType, e)
	if t.Data = data; bad < 0 {
		return nil
	}
	low, high := bounds(t.DType)
	return fault(fmt.Sprintf("%s[%d]", listNames[e.list], bad), fmt.Sprintf("%v (%d to %d)", t.DType, low, high),
		strconv.FormatInt(value, 10))
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

func checkRaw(t *tensor.Tensor, count int64) error {
	if want, got := count*int64(t.DType.Size()), t.Size(); int64(got) != want {
		return fault("raw",
			fmt.Sprintf("%d bytes (shape %v of %v)", want, t.Shape, t.DType), fmt.Sprintf("%d bytes", got))
	}
	if t.DType != tensor.Bool {
		return nil
	}
	at := 0
	for run := range t.Runs() {
		if i := slices.IndexFunc(run, func(b byte) bool { return b > 1 }); i >= 0 {
			return fault("raw", "0 or 1 for each bool", fmt.Sprintf("%d at byte %d", run[i], at+i))
		}
		at += len(run)
	}
	return nil
}

func fault(part, want, got string) error {
	return &tensor.FieldError{Field: part, Want: want, Got: got}
}
