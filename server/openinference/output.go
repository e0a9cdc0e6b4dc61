package openinference

import (
	"github.com/weftserve/weft/runtime/tensor"
)

// output returns what was asked of an output of the answer.
func (r *request) output(i int) *output {
	if i < len(r.in.outputs) {
		return &r.in.outputs[i]
	}
	return &unasked
}

// unasked is the output of a request that asks for none in particular.
var unasked output

// CheckOutput implements predict.OutputChecker.
func (r *request) CheckOutput(i int, spec *tensor.Spec, rows int) error {
	o := &r.in.outputs[i]
	if o.classes > 0 && !ranks(spec.DType) {
		return &tensor.FieldError{
			Field: outputField(o.name) + `.parameters["classification"]`, Want: "an output of numbers",
			Got: "one of " + datatype(spec.DType),
		}
	}
	shape := spec.Shape
	if spec.BatchDim != tensor.NoBatch {
		shape = shape.With(spec.BatchDim, int64(rows))
	}
	count, known := shape.Elements()
	if size := int64(spec.DType.Size()); o.place != nil && known && size > 0 {
		return fits(o, count*size)
	}
	return nil
}
