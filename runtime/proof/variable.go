package proof

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/weftserve/weft/runtime/modelrepo"
	"github.com/weftserve/weft/runtime/tensor"
)

// variable is an input one of whose dimensions has the length of the request, as the manifest declares it.
type variable struct {
	input int
	tensor.Variable
	symbol string // the model's name of the dimension, "" where it has none
	seen   bool   // the outputs that are as long are known from the model's results, not from names
}

// findVariables reads the manifest's settings of lengths, in the order of the inputs. The error names the manifest's
// key that does not fit the model. The batch dimensions are decided already; batched says whether any input has one.
func (d *Decision) findVariables(b *modelrepo.Batching, batched bool) error {
	for _, name := range slices.Sorted(maps.Keys(b.VariableDims)) {
		i := d.Signature.Input(name)
		if i < 0 {
			return fmt.Errorf("model.yaml: batching.variable_dims names %q, but the model's inputs are %s", name,
				names(d.Signature.Inputs))
		}
		if batched && d.Signature.Inputs[i].BatchDim == tensor.NoBatch {
			return fmt.Errorf("model.yaml: batching.variable_dims names %q, which has no batch dimension; only inputs "+
				"with one are brought to common lengths", name)
		}
		v, err := newVariable(&d.Signature.Inputs[i], b.VariableDims[name])
		if err != nil {
			return fmt.Errorf("model.yaml: batching.variable_dims.%s.%w", name, err)
		}
		v.input = i
		d.variables = append(d.variables, v)
	}
	slices.SortFunc(d.variables, func(a, b variable) int { return a.input - b.input })
	for k := range d.variables {
		v := &d.variables[k]
		v.Like = v.input
		for _, first := range d.variables[:k] {
			if !first.sameLength(v) {
				continue
			}
			if !slices.Equal(first.Buckets, v.Buckets) {
				return misfit("model.yaml: batching.variable_dims."+d.name(v)+".buckets",
					fmt.Sprintf("those of %q, because the model calls both dimensions %q", d.name(&first), v.symbol),
					" are %v, but those of %q are %v, and the model calls both dimensions %q; give both the same",
					&v.Variable, d.name(&first), &first.Variable, v.symbol)
			}
			v.Like = first.Like
			break
		}
	}
	return d.checkSharers()
}

func newVariable(s *tensor.Spec, declared modelrepo.VariableDim) (variable, error) {
	dim := declared.Axis
	switch {
	case dim >= len(s.Shape):
		return variable{}, misfit("axis", open(s.Shape), " is %d, but the shape is %v; dimensions count from 0", dim,
			s.Shape)
	case dim == s.BatchDim:
		return variable{}, misfit("axis", open(s.Shape)+", other than that of the batch",
			" is %d, which is the batch dimension of %v; expected another", dim, s.Shape)
	case s.Shape[dim] != tensor.Unknown:
		return variable{}, misfit("axis", open(s.Shape),
			" is %d, but the shape is %v; only a dimension whose size is open can have several lengths", dim, s.Shape)
	}
	pad, err := tensor.ParseElement(s.DType, string(declared.PadValue))
	if err != nil {
		return variable{}, misfit("pad_value", fmt.Sprintf("an element of %v", s.DType), ": %w (the input is %v)", err,
			s.DType)
	}
	v := variable{Variable: tensor.Variable{Dim: dim, Pad: pad, Most: int64(slices.Max(declared.Buckets))}}
	for _, b := range declared.Buckets {
		v.Buckets = append(v.Buckets, int64(b))
	}
	if s.DimNames != nil {
		v.symbol = s.DimNames[dim]
	}
	return v, nil
}

// sameLength reports whether two inputs of a request must be equally long: the model calls the dimensions alike or,
// where it does not name them, the manifest gives them the same buckets. Padding would otherwise hide from the model
// that they differ.
func (v *variable) sameLength(w *variable) bool {
	return v.symbol == w.symbol && (v.symbol != "" || slices.Equal(v.Buckets, w.Buckets))
}

// checkSharers refuses a manifest by which one of two equal dimensions would be padded and the other not.
func (d *Decision) checkSharers() error {
	for k := range d.variables {
		v := &d.variables[k]
		if v.symbol == "" {
			continue
		}
		for i := range d.Signature.Inputs {
			in := &d.Signature.Inputs[i]
			dim := slices.Index(in.DimNames, v.symbol)
			padded := slices.ContainsFunc(d.variables,
				func(w variable) bool { return w.input == i && w.symbol == v.symbol })
			switch {
			case dim < 0:
			case !padded && in.BatchDim == tensor.NoBatch:
				return fmt.Errorf("model.yaml: batching.variable_dims.%s: input %q, which has no batch dimension, has "+
					"that dimension too (the model calls it %q) "+
					"and cannot be padded along; remove all entries for it", d.name(v), in.Name, v.symbol)
			case !padded:
				return fmt.Errorf("model.yaml: batching.variable_dims has no entry for input %q, whose dimension %d "+
					"the model calls %q like that of %q; "+
					"add one with axis: %d and buckets: [%v]", in.Name, dim, v.symbol, d.name(v), dim, &v.Variable)
			case slices.Contains(in.DimNames[dim+1:], v.symbol):
				return fmt.Errorf("model.yaml: batching.variable_dims.%s: the model calls two dimensions of this "+
					"input %q, and only one can be padded; remove all entries for it",
					in.Name, v.symbol)
			}
		}
	}
	return nil
}

func (d *Decision) name(v *variable) string { return d.Signature.Inputs[v.input].Name }

// declare writes the lengths that requests may have into the signature: up to the largest bucket of every length,
// padded or as it is.
func (d *Decision) declare(padded bool) {
	d.Signature = d.Signature.Clone()
	for k := range d.variables {
		v := d.variables[k].Variable
		if !padded {
			v.Buckets = nil
		}
		d.Signature.Inputs[d.variables[k].input].Variable = &v
	}
}

// explain adds the assumptions about rows, and the treatment of lengths, to the signature's notes.
func (d *Decision) explain(padded bool) {
	notes := &d.Signature.Notes
	if d.assumed != nil {
		*notes = append(*notes, fmt.Sprintf("all inputs with rows are taken to have equally many, although nothing "+
			"says so of %s: name an input that has none in batching.unbatched",
			strings.Join(d.assumed, ", ")))
	}
	for k := range d.variables {
		v := &d.variables[k]
		how := "executed in the length that they have"
		if padded {
			how = fmt.Sprintf("padded to %v", &v.Variable)
		}
		*notes = append(*notes, fmt.Sprintf("input %q takes 1 to %d elements in dimension %d, %s", d.name(v), v.Most,
			v.Dim, how))
	}
	if !padded {
		return
	}
	for o := range d.Signature.Outputs {
		out := &d.Signature.Outputs[o]
		for dim, size := range out.Shape {
			c := slices.IndexFunc(d.trims, func(c tensor.Trim) bool { return c.Output == o && c.Dim == dim })
			switch {
			case c >= 0:
				*notes = append(*notes, fmt.Sprintf("output %q is cut back in dimension %d to the length of input %q",
					out.Name, dim, d.Signature.Inputs[d.trims[c].Input].Name))
			case size == tensor.Unknown && dim != out.BatchDim:
				*notes = append(*notes, fmt.Sprintf(
					"output %q comes in dimension %d as the model gives it for the padded inputs", out.Name, dim))
			}
		}
	}
}
