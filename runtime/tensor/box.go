package tensor

import "slices"

// Box is a part of a tensor that lies in one piece: in each dimension Extent elements from First on. All of them are
// there.
type Box struct {
	Tensor
	First, Extent Shape
}

// Copy returns the part as a tensor of its own, in fresh memory.
func (b Box) Copy() Tensor {
	part := Tensor{DType: b.DType, Shape: slices.Clone(b.Extent)}
	count, _ := b.Extent.Elements()
	if count == 0 {
		return part
	}
	// Behind the last dimension that is cut everything lies together.
	cut := len(b.Shape) - 1
	for cut >= 0 && b.Extent[cut] == b.Shape[cut] {
		cut--
	}
	if cut < 0 {
		part.Data = slices.Clone(b.Data)
		return part
	}
	inner := product(b.Shape[cut+1:])
	run := int(b.Extent[cut]) * inner
	part.Data = make([]byte, 0, int(count)*b.DType.Size()) // strings make it grow
	source := elementsOf(b.Tensor)
	for at := make(Shape, cut); ; {
		from := 0
		for d, first := range b.First[:cut] {
			from = from*int(b.Shape[d]) + int(first+at[d])
		}
		from = from*int(b.Shape[cut]) + int(b.First[cut])
		part.Data = append(part.Data, source.run(from*inner, run)...)
		if !advance(at, b.Extent) {
			return part
		}
	}
}

// advance moves at to the next place in row-major order. It reports false behind the last.
func advance(at, extent Shape) bool {
	for d := len(at) - 1; d >= 0; d-- {
		at[d]++
		if at[d] < extent[d] {
			return true
		}
		at[d] = 0
	}
	return false
}
