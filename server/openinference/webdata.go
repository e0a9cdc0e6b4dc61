package openinference

import (
	"slices"

	"github.com/weftserve/weft/runtime/tensor"
	"github.com/weftserve/weft/server/predict"
	"github.com/weftserve/weft/server/web"
)

// dtypeOf returns the element type of a datatype; tensor.Invalid: there is none of that name.
func dtypeOf(name string) tensor.DType {
	for d := range datatypes {
		if datatypes[d].name == name && name != "" {
			return tensor.DType(d)
		}
	}
	return tensor.Invalid
}

// decodeList reads an input from the JSON that it came in. That was checked when the body was read; how its elements
// are written is looked at here, since the type is the model's. The data are the request's until letGo.
func (r *request) decodeList(spec *tensor.Spec, in *input, shape tensor.Shape) (tensor.Tensor, error) {
	if _, err := predict.Elements(spec, shape); err != nil {
		return tensor.Tensor{}, err
	}
	if err := r.CheckRows(spec, shape); err != nil {
		return tensor.Tensor{}, err
	}
	if err := in.list.CheckSize(spec.DType, r.house.MaxMessageBytes); err != nil {
		return tensor.Tensor{}, web.InPart("data", err)
	}
	t := tensor.Tensor{DType: spec.DType, Shape: shape}
	data, err := in.list.Decode(&t, r.house.Memory, datatype(spec.DType))
	if data != nil {
		r.copies = append(r.copies, data)
	}
	return t, web.InPart("data", err)
}

// shapeOf returns the shape of an input that came without one: that of its lists or, where the model does not take
// that, such as of a flat list, the model's with as many elements in its only open dimension as came.
func shapeOf(spec *tensor.Spec, l *web.List) tensor.Shape {
	shape, open, others := slices.Clone(shownShape(spec)), -1, 1
	if fitsShape(shape, l.Shape) || l.Count == 0 {
		return l.Shape
	}
	for i, size := range shape {
		switch {
		case size != tensor.Unknown:
			others *= int(size)
		case open >= 0:
			return l.Shape
		default:
			open = i
		}
	}
	if open < 0 || others <= 0 || l.Count%others != 0 {
		return l.Shape
	}
	shape[open] = int64(l.Count / others)
	return shape
}
