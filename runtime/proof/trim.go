package proof

import (
	"slices"

	"github.com/weftserve/weft/runtime/tensor"
)

// namedTrims are the output dimensions that bear the name of a padded input dimension.
func (d *Decision) namedTrims() (trims []tensor.Trim) {
	for o := range d.Signature.Outputs {
		out := &d.Signature.Outputs[o]
		for dim, name := range out.DimNames {
			for k := range d.variables {
				if v := &d.variables[k]; name != "" && name == v.symbol && v.Like == v.input && dim != out.BatchDim {
					trims = append(trims, tensor.Trim{Output: o, Dim: dim, Input: v.input})
				}
			}
		}
	}
	return trims
}

// trace is one request's inputs, and its outputs as it is and padded.
type trace struct{ inputs, plain, padded []tensor.Tensor }

// learnTrims replaces the trims that names suggested by the observed ones: the output dimensions that had, in all
// traces, the length of an input and, padded, that of its bucket. Traces say nothing if none is shorter than its
// bucket, and an observation stays once it was made.
func (d *Decision) learnTrims(traces []trace) {
	for k := range d.variables {
		v := &d.variables[k]
		if v.Like != v.input || v.seen || !slices.ContainsFunc(traces, v.shorter) {
			continue
		}
		v.seen = true
		d.trims = slices.DeleteFunc(d.trims, func(c tensor.Trim) bool { return c.Input == v.input })
		for o := range d.Signature.Outputs {
			for dim := range traces[0].plain[o].Shape {
				taken := slices.ContainsFunc(d.trims, func(c tensor.Trim) bool { return c.Output == o && c.Dim == dim })
				if dim != d.Signature.Outputs[o].BatchDim && !taken && v.follows(o, dim, traces) {
					d.trims = append(d.trims, tensor.Trim{Output: o, Dim: dim, Input: v.input})
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
