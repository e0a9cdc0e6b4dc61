package openinference

import (
	"slices"

	"github.com/weftserve/weft/proto/gen/inference"
	"github.com/weftserve/weft/runtime/tensor"
)

// reshapes reports whether clients see another shape than the model's, as a reshape in config.pbtxt has it.
func reshapes(spec *tensor.Spec) bool { return spec.Shown != nil && spec.Shown.Shape != nil }

// shownShape is the shape of a tensor as clients of this protocol see it.
func shownShape(spec *tensor.Spec) tensor.Shape {
	if reshapes(spec) {
		return spec.Shown.Shape
	}
	return spec.Shape
}

// taken returns the model's shape of an input that came in the shape that clients see. The error is a
// *tensor.FieldError.
func taken(spec *tensor.Spec, came tensor.Shape) (tensor.Shape, error) {
	switch {
	case !reshapes(spec):
		return came, nil // which is checked against the model's
	case !fitsShape(spec.Shown.Shape, came):
		return nil, &tensor.FieldError{Field: "shape", Want: spec.Shown.Shape.String(), Got: came.Literal()}
	}
	return reshaped(spec.Shown.Shape, spec.Shown.Own, came), nil
}

// given returns the shape of an output as clients see it. If the model's output is not as the settings say, its shape
// stays as it is.
func given(spec *tensor.Spec, is tensor.Shape) tensor.Shape {
	if !reshapes(spec) || !fitsShape(spec.Shown.Own, is) {
		return is
	}
	return reshaped(spec.Shown.Own, spec.Shown.Shape, is)
}

// fitsShape reports whether a shape is of a form, in which tensor.Unknown stands for any size.
func fitsShape(form, sizes tensor.Shape) bool {
	return slices.EqualFunc(form, sizes, func(want, got int64) bool { return want == tensor.Unknown || want == got })
}

// reshaped gives sizes of one form the other form. Both forms have as many sizes that vary, and these keep their order:
// [-1, 2, 3] and [-1, 6] turn [7, 2, 3] into [7, 6].
func reshaped(from, to, sizes tensor.Shape) tensor.Shape {
	out, next := slices.Clone(to), 0
	for i := range out {
		// A size that is fixed in the new form; the open ones take the sizes of the old form's open ones, in order.
		if out[i] != tensor.Unknown {
			continue
		}
		for from[next] != tensor.Unknown {
			next++
		}
		out[i] = sizes[next]
		next++
	}
	return out
}

// datatypes are the names of element types in messages, and what a model's configuration calls them.
var datatypes = [...]struct {
	name   string
	config inference.DataType
}{
	tensor.Invalid: {"", inference.DataType_TYPE_INVALID},
	tensor.Bool:    {"BOOL", inference.DataType_TYPE_BOOL},
	tensor.Int8:    {"INT8", inference.DataType_TYPE_INT8}, tensor.Int16: {"INT16", inference.DataType_TYPE_INT16},
	tensor.Int32: {"INT32", inference.DataType_TYPE_INT32}, tensor.Int64: {"INT64", inference.DataType_TYPE_INT64},
	tensor.Uint8: {"UINT8", inference.DataType_TYPE_UINT8}, tensor.Uint16: {"UINT16", inference.DataType_TYPE_UINT16},
	tensor.Uint32: {"UINT32", inference.DataType_TYPE_UINT32}, tensor.Uint64: {"UINT64", inference.DataType_TYPE_UINT64},
	tensor.Float16: {"FP16", inference.DataType_TYPE_FP16}, tensor.BFloat16: {"BF16", inference.DataType_TYPE_BF16},
	tensor.Float32: {"FP32", inference.DataType_TYPE_FP32}, tensor.Float64: {"FP64", inference.DataType_TYPE_FP64},
	tensor.String: {"BYTES", inference.DataType_TYPE_STRING},
}

// datatype returns the name of an element type; dtypeOf is its inverse.
func datatype(d tensor.DType) string { return datatypes[d].name }
