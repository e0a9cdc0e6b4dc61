package host

import (
	"slices"

	"github.com/weftserve/weft/runtime/tensor"
)

// trim is a dimension of an output that is as long as an input: where the input was padded, the output is cut back.
type trim struct{ output, dim, input int }

// share returns what a request gets of output o: the rows along dim, all of it where the output has no rows (tensor.NoBatch), cut
// back to the lengths that the request's inputs have.
func share(s *tensor.Signature, trims []trim, o, dim int, out tensor.RowRange, inputs []tensor.Tensor) tensor.Tensor {
	box := tensor.Box{Tensor: out.Tensor}
	for _, c := range trims {
		v := s.Inputs[c.input].Variable
		length := inputs[c.input].Shape[v.Dim]
		padded := v.Padded(length)
		if c.output != o || length == padded || c.dim >= len(out.Shape) || out.Shape[c.dim] != padded {
			continue // what is not as long as the padded input is returned as it comes
		}
		if box.Extent == nil {
			box.First, box.Extent = make(tensor.Shape, len(out.Shape)), out.Shape
		}
		box.Extent = box.Extent.With(c.dim, length)
	}
	switch {
	case box.Extent != nil && dim != tensor.NoBatch:
		box.First[dim], box.Extent[dim] = int64(out.First), int64(out.Rows)
		return box.Copy()
	case box.Extent != nil:
		return box.Copy()
	case dim != tensor.NoBatch:
		return out.Copy(dim)
	default:
		return out.Clone()
	}
}

// namedTrims are the output dimensions that bear the name of a padded input dimension.
func (d *decision) namedTrims() (trims []trim) {
	for o := range d.signature.Outputs {
		out := &d.signature.Outputs[o]
		for dim, name := range out.DimNames {
			for k := range d.variables {
				if v := &d.variables[k]; name != "" && name == v.symbol && v.Like == v.input && dim != out.BatchDim {
					trims = append(trims, trim{o, dim, v.input})
				}
			}
		}
	}
	return trims
}

// trace is one request's inputs, and its outputs as it is and padded.
type trace struct{ inputs, plain, padded []tensor.Tensor }

// learnTrims replaces what names told by what was seen: the output dimensions that had, in all traces, the length of an input
// and, padded, that of its bucket. Traces none of which is shorter than its bucket tell nothing, and what was seen once stays.
func (d *decision) learnTrims(traces []trace) {
	for k := range d.variables {
		v := &d.variables[k]
		if v.Like != v.input || v.seen || !slices.ContainsFunc(traces, v.shorter) {
			continue
		}
		v.seen = true
		d.trims = slices.DeleteFunc(d.trims, func(c trim) bool { return c.input == v.input })
		for o := range d.signature.Outputs {
			for dim := range traces[0].plain[o].Shape {
				taken := slices.ContainsFunc(d.trims, func(c trim) bool { return c.output == o && c.dim == dim })
				if dim != d.signature.Outputs[o].BatchDim && !taken && v.follows(o, dim, traces) {
					d.trims = append(d.trims, trim{o, dim, v.input})
				}
			}
		}
	}
}

// shorter reports whether the input had to be padded.
func (v *variable) shorter(t trace) bool {
	n := t.inputs[v.input].Shape[v.Dim]
	return n < v.Padded(n)
}

// follows reports whether the dimension of the output is as long as the input, padded and not.
func (v *variable) follows(o, dim int, traces []trace) bool {
	for _, t := range traces {
		n := t.inputs[v.input].Shape[v.Dim]
		plain, padded := t.plain[o].Shape, t.padded[o].Shape
		if len(plain) != len(padded) || dim >= len(plain) || plain[dim] != n || padded[dim] != v.Padded(n) {
			return false
		}
	}
	return true
}
