package server

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	weftv1 "github.com/weftserve/weft/proto/gen/weft/v1"
	"github.com/weftserve/weft/runtime/tensor"
)

const (
	// maxTensorBytes is what the elements of one tensor must stay below: sizes beyond it overflow in native code.
	maxTensorBytes = 1 << 31
	// maxRank bounds the dimensions of a tensor, so that messages can repeat a shape. Models have a handful.
	maxRank = 32
	// maxEmptyExtent bounds the product of the other dimensions of a tensor without elements: no bytes back such a claim, and
	// models loop over those dimensions and allocate by them. Models do get empty tensors, such as a cache of [1,4,0,64].
	maxEmptyExtent = 1 << 20
)

// decodeInput turns the message of the named input into a tensor of the element type that the model takes, and tells how the
// elements came. The error is a *tensor.FieldError.
//
// The tensor's shape, and its data if they came raw, are the message's own memory, not copies. Otherwise decoding allocates at
// most 8 bytes for each byte received (an int64 that travelled as one byte); what a message merely claims costs nothing.
func decodeInput(name string, dtype tensor.DType, t *weftv1.Tensor) (tensor.Tensor, form, error) {
	fault := func(part, want, got string) (tensor.Tensor, form, error) {
		return tensor.Tensor{}, formNone, &tensor.FieldError{Field: inputField(name) + "." + part, Want: want, Got: got}
	}
	if t.GetDtype() != wireDTypes[dtype] {
		return fault("dtype", dtype.String(), describeDType(t.GetDtype()))
	}
	if len(t.GetShape()) > maxRank {
		return fault("shape", fmt.Sprintf("at most %d dimensions", maxRank), strconv.Itoa(len(t.GetShape())))
	}
	out := tensor.Tensor{DType: dtype, Shape: t.GetShape()}
	count, ok := out.Shape.Elements()
	if !ok {
		return fault("shape", "dimensions that are not negative, of less than 2 GiB in all", out.Shape.Literal())
	}
	if size := int64(max(1, dtype.Size())); count > (maxTensorBytes-1)/size {
		return fault("shape", "less than 2 GiB of elements", fmt.Sprintf("%v, %d elements of %d bytes", out.Shape, count, size))
	}

	if count == 0 && !emptyExtentIsSmall(out.Shape) {
		return fault("shape", fmt.Sprintf("dimensions other than 0 whose product is at most %d, as no elements come with them", maxEmptyExtent), out.Shape.String())
	}

	sizes := formSizes(t)
	used, err := formOf(name, dtype, out.Shape, count, &sizes)
	if err != nil {
		return tensor.Tensor{}, formNone, err
	}
	switch used {
	case formNone:
		return out, used, nil
	case formRaw:
		want := count * int64(dtype.Size())
		if int64(sizes[formRaw]) != want {
			return fault("raw", fmt.Sprintf("%d bytes (shape %v of %v)", want, out.Shape, dtype), fmt.Sprintf("%d bytes", sizes[formRaw]))
		}
		if dtype == tensor.Bool {
			if i := slices.IndexFunc(t.GetRaw(), func(b byte) bool { return b > 1 }); i >= 0 {
				return fault("raw", "0 or 1 for each bool", fmt.Sprintf("%d at byte %d", t.GetRaw()[i], i))
			}
		}
		out.Data = t.GetRaw()
		return out, used, nil
	default: // a typed list
	}
	if int64(sizes[used]) != count {
		return fault(formNames[used], fmt.Sprintf("%d elements (shape %v)", count, out.Shape), fmt.Sprintf("%d elements", sizes[used]))
	}
	data, bad := packTyped(dtype, t)
	if bad >= 0 {
		return fault(fmt.Sprintf("%s[%d]", formNames[used], bad), describeRange(dtype), describeElement(used, t, bad))
	}
	out.Data = data
	return out, used, nil
}

// emptyExtentIsSmall reports whether the dimensions that are not 0 keep to maxEmptyExtent. None is negative.
func emptyExtentIsSmall(shape tensor.Shape) bool {
	product := int64(1)
	for _, d := range shape {
		if d == 0 {
			continue
		}
		if d > maxEmptyExtent/product {
			return false
		}
		product *= d
	}
	return true
}

// formOf returns the form that carries the elements, and complains unless it is the only one, fits the element type, and is
// there when there are elements.
func formOf(name string, dtype tensor.DType, shape tensor.Shape, count int64, sizes *[forms]int) (form, error) {
	var present []string
	used := formNone
	for f, size := range sizes {
		if size > 0 {
			used = form(f)
			present = append(present, formNames[f])
		}
	}
	typed := typedForm(dtype)
	allowed := formNames[typed]
	if dtype != tensor.String {
		allowed = "raw or " + allowed
	}
	switch {
	case len(present) > 1:
		return formNone, &tensor.FieldError{Field: inputField(name), Want: "one representation of the elements", Got: strings.Join(present, " and ")}
	case used == formNone && count > 0:
		return formNone, &tensor.FieldError{Field: inputField(name), Want: fmt.Sprintf("%d elements (shape %v) in %s", count, shape, allowed), Got: "none"}
	case used == formRaw && dtype == tensor.String, used > formRaw && used != typed:
		return formNone, &tensor.FieldError{Field: inputField(name) + "." + formNames[used], Want: fmt.Sprintf("%v elements in %s", dtype, allowed), Got: present[0]}
	}
	return used, nil
}

func inputField(name string) string { return fmt.Sprintf("inputs[%q]", name) }

// describeDType names a dtype that came in a message as the API spells it.
func describeDType(d weftv1.DataType) string {
	for ours, wire := range wireDTypes {
		if wire == d {
			return ours.String()
		}
	}
	return fmt.Sprintf("%v (%d)", d, int32(d))
}
