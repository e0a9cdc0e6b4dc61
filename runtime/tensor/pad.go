package tensor

// Padding brings dimension Dim to Size elements with copies of Element, behind the ones that are there. Element is as
// Tensor.Data holds it.
type Padding struct {
	Dim     int
	Size    int64
	Element []byte
}

// Padding returns how a request's value of the input is padded along its length, and whether it is at all.
func (s *Spec) Padding(value Shape) (p Padding, pads bool) {
	v := s.Variable
	if v == nil || len(v.Buckets) == 0 {
		return Padding{}, false
	}
	return Padding{Dim: v.Dim, Size: v.Padded(value[v.Dim]), Element: v.Pad}, true
}

// JoinPadded is JoinRows for ranges whose tensors may also differ in dimension p.Dim, which is not dim: each is padded
// on the way. None is larger there than p.Size. dst must have PaddedSize bytes.
func JoinPadded(dst []byte, dim int, ranges []RowRange, p Padding) {
	if len(dst) == 0 { // however large some dimensions are
		return
	}
	sources := make([]elements, len(ranges))
	for i := range ranges {
		sources[i] = elementsOf(ranges[i].Tensor)
	}
	if dim < p.Dim {
		joinRowByRow(dst, dim, ranges, sources, p)
	} else {
		joinSideBySide(dst, dim, ranges, sources, p)
	}
}

// PaddedSize returns the bytes of the tensor that JoinPadded writes.
func PaddedSize(dim int, ranges []RowRange, p Padding) int {
	size := JoinedSize(dim, ranges)
	for i := range ranges {
		r := &ranges[i]
		missing := r.Rows * int(p.Size-r.Shape[p.Dim])
		for d, n := range r.Shape {
			if d != dim && d != p.Dim {
				missing *= int(n)
			}
		}
		size += missing * len(p.Element)
	}
	return size
}

// joinRowByRow: a row's part of the padded dimension lies together, and its padding follows.
func joinRowByRow(dst []byte, dim int, ranges []RowRange, sources []elements, p Padding) {
	shape := ranges[0].Shape
	outer, middle, inner := product(shape[:dim]), product(shape[dim+1:p.Dim]), product(shape[p.Dim+1:])
	for o := range outer {
		for i := range ranges {
			r := &ranges[i]
			there := int(r.Shape[p.Dim]) * inner
			missing := int(p.Size)*inner - there
			from, runs := (o*int(r.Shape[dim])+r.First)*middle, r.Rows*middle
			if missing == 0 {
				dst = sources[i].copy(dst, from*there, runs*there)
				continue
			}
			for k := range runs {
				dst = sources[i].copy(dst, (from+k)*there, there)
				dst = fill(dst, p.Element, missing)
			}
		}
	}
}

// joinSideBySide: the rows of all ranges lie next to each other once for every place in the padded dimension; beyond a
// range's own length there, they are padding.
func joinSideBySide(dst []byte, dim int, ranges []RowRange, sources []elements, p Padding) {
	shape := ranges[0].Shape
	outer, middle, inner := product(shape[:p.Dim]), product(shape[p.Dim+1:dim]), product(shape[dim+1:])
	for o := range outer {
		for k := range int(p.Size) * middle {
			for i := range ranges {
				r := &ranges[i]
				if there := int(r.Shape[p.Dim]) * middle; k < there {
					from := ((o*there+k)*int(r.Shape[dim]) + r.First) * inner
					dst = sources[i].copy(dst, from, r.Rows*inner)
				} else {
					dst = fill(dst, p.Element, r.Rows*inner)
				}
			}
		}
	}
}

// fill writes the element n times and returns the rest.
func fill(dst, element []byte, n int) []byte {
	size := n * len(element)
	for done := copy(dst[:size], element); done > 0 && done < size; {
		done += copy(dst[done:size], dst[:done])
	}
	return dst[size:]
}

func product(s Shape) int {
	n := 1
	for _, d := range s {
		n *= int(d)
	}
	return n
}

// Trim is a dimension of an output that is as long as an input: where the input was padded, the output is cut back.
type Trim struct{ Output, Dim, Input int }

// Share returns the part of output o that a request with these inputs gets: the rows along dim, all of it where the
// output has no rows (NoBatch), cut back to the lengths that the request's inputs have. It is a copy, in the given
// memory or the garbage collector's.
func (s *Signature) Share(trims []Trim, o, dim int, out RowRange, inputs []Tensor, in Memory) Tensor {
	box := Box{Tensor: out.Tensor}
	for _, c := range trims {
		v := s.Inputs[c.Input].Variable
		length := inputs[c.Input].Shape[v.Dim]
		padded := v.Padded(length)
		if c.Output != o || length == padded || c.Dim >= len(out.Shape) || out.Shape[c.Dim] != padded {
			continue // an output that is not as long as the padded input is returned as it comes
		}
		if box.Extent == nil {
			box.First, box.Extent = make(Shape, len(out.Shape)), out.Shape
		}
		box.Extent = box.Extent.With(c.Dim, length)
	}
	switch {
	case box.Extent != nil && dim != NoBatch:
		box.First[dim], box.Extent[dim] = int64(out.First), int64(out.Rows)
		return box.Copy()
	case box.Extent != nil:
		return box.Copy()
	case dim != NoBatch:
		return out.copy(dim, in)
	default:
		return out.clone(in)
	}
}
