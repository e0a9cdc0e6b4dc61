package tensor

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
