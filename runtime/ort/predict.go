package ort

import "github.com/weftserve/weft/runtime/tensor"

// maxPredicted bounds the bytes that are set aside on the word of the model alone. For a larger output ONNX Runtime
// allocates first, which fails as an error of the run.
const maxPredicted = 1 << 30

// prediction computes an output's shape before the run, so that the model can write where the answer is wanted.
type prediction []predictedDim

// predictedDim is the size of one dimension.
type predictedDim struct {
	size int64 // where the model fixes it
	// from are the input dimensions of the same symbolic name. The model promises that they are equal.
	from []inputDim
}

type inputDim struct{ input, dim int }

// predict returns the prediction for an output, or nil where its shape is known after the run only.
func predict(sig *tensor.Signature, output tensor.Spec) prediction {
	if output.DType == tensor.String || output.Shape == nil || sig.Input(output.Name) >= 0 {
		// Strings have sizes of their own, a missing shape says nothing, and ONNX Runtime hands an output that is an
		// input back as that input without writing anywhere.
		return nil
	}
	p := make(prediction, len(output.Shape))
	for i, size := range output.Shape {
		p[i].size = size
		if size != tensor.Unknown {
			continue
		}
		if output.DimNames == nil || output.DimNames[i] == "" {
			return nil
		}
		for in, spec := range sig.Inputs {
			for d, name := range spec.DimNames {
				if name == output.DimNames[i] {
					p[i].from = append(p[i].from, inputDim{in, d})
				}
			}
		}
		if p[i].from == nil {
			return nil
		}
	}
	return p
}

// shape appends the predicted shape for inputs to dst. It reports false where the inputs contradict the model's
// symbols.
func (p prediction) shape(dst tensor.Shape, inputs []tensor.Tensor) (tensor.Shape, bool) {
	for _, d := range p {
		size := d.size
		for i, from := range d.from {
			got := inputs[from.input].Shape[from.dim]
			if i > 0 && got != size {
				return dst, false
			}
			size = got
		}
		dst = append(dst, size)
	}
	return dst, true
}
