package predict

import (
	"fmt"
	"strconv"

	"github.com/weftserve/weft/runtime/tensor"
)

const (
	// maxTensorBytes is the size that the elements of one tensor must stay below: larger sizes overflow in native code.
	maxTensorBytes = 1 << 31
	// maxRank bounds the dimensions of a tensor, so that messages can repeat a shape. Models have a handful.
	maxRank = 32
	// maxEmptyExtent bounds the product of the other dimensions of a tensor without elements: no bytes back such a
	// claim, and models loop over those dimensions and allocate by them. Models do get empty tensors, such as a cache
	// of [1,4,0,64].
	maxEmptyExtent = 1 << 20
)

// Elements returns how many elements a tensor of the claimed shape brings to an input. The error is a
// *tensor.FieldError of the field "shape": the input does not take that shape, or no tensor may have it. Every codec
// asks it before it looks at the elements, because a forgotten shape is the likelier mistake than forgotten elements,
// and before it allocates anything.
func Elements(input *tensor.Spec, claimed tensor.Shape) (int64, error) {
	fault := func(want, got string) (int64, error) {
		return 0, &tensor.FieldError{Field: "shape", Want: want, Got: got}
	}
	if len(claimed) > maxRank {
		return fault(fmt.Sprintf("at most %d dimensions", maxRank), strconv.Itoa(len(claimed)))
	}
	if !input.Shape.Accepts(claimed) {
		return fault(input.Shape.String(), claimed.Literal())
	}
	count, ok := claimed.Elements()
	if !ok {
		return fault("dimensions that are not negative, of less than 2 GiB in all", claimed.Literal())
	}
	if size := int64(max(1, input.DType.Size())); count > (maxTensorBytes-1)/size {
		return fault("less than 2 GiB of elements", fmt.Sprintf("%v, %d elements of %d bytes", claimed, count, size))
	}
	if count == 0 && !emptyExtentIsSmall(claimed) {
		const want = "dimensions other than 0 whose product is at most %d, as no elements come with them"
		return fault(fmt.Sprintf(want, maxEmptyExtent), claimed.String())
	}
	return count, nil
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
