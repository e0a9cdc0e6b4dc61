package openinference

import (
	"slices"

	"github.com/weftserve/weft/runtime/tensor"
)

// reshapes reports whether clients see another shape than the model's.
func reshapes(spec *tensor.Spec) bool { return spec.Shown != nil && spec.Shown.Shape != nil }

// shownShape is the shape of a tensor as clients of this protocol see it.
func shownShape(spec *tensor.Spec) tensor.Shape {
	if reshapes(spec) {
		return spec.Shown.Shape
	}
	return spec.Shape
}

// taken returns the model's shape of an input that came in the shape that clients see.
func taken(spec *tensor.Spec, came tensor.Shape) (tensor.Shape, error) {
	switch {
	case !reshapes(spec):
		return came, nil // which is checked against the model's
	case !fitsShape(spec.Shown.Shape, came):
		return nil, &tensor.FieldError{Field: "shape", Want: spec.Shown.Shape.String(), Got: came.Literal()}
	}
	return reshaped(spec.Shown.Shape, spec.Shown.Own, came), nil
}

// given returns the shape of an output as clients see it. One that is not as the settings say stays as it is.
func given(spec *tensor.Spec, is tensor.Shape) tensor.Shape {
	if !reshapes(spec) || !fitsShape(spec.Shown.Own, is) {
		return is
	}
	return reshaped(spec.Shown.Own, spec.Shown.Shape, is)
}

func fitsShape(form, sizes tensor.Shape) bool {
	return slices.EqualFunc(form, sizes, func(want, got int64) bool { return want == tensor.Unknown || want == got })
}

// reshaped gives sizes of one form the other form, which has as many sizes that vary: they keep their order.
func reshaped(from, to, sizes tensor.Shape) tensor.Shape {
	out, next := slices.Clone(to), 0
	for i := range out {
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
