package server

import (
	"fmt"
	"unicode/utf8"

	weftv1 "github.com/weftserve/weft/proto/gen/weft/v1"
	"github.com/weftserve/weft/runtime/tensor"
)

// encodeTensor turns an output into its message. Raw data, and strings, are not copied: the message aliases t.
func encodeTensor(t tensor.Tensor, raw bool) (*weftv1.Tensor, error) {
	if err := t.Check(); err != nil {
		return nil, err
	}
	out := &weftv1.Tensor{Dtype: wireDTypes[t.DType], Shape: t.Shape}
	if raw && t.DType != tensor.String {
		out.Raw = t.Data
	} else {
		unpackTyped(out, t)
	}
	return out, nil
}

// encodeOutputs answers the wanted outputs of a signature.
func encodeOutputs(specs []tensor.Spec, wanted []int, results []tensor.Tensor, raw bool) (map[string]*weftv1.Tensor, error) {
	if wanted == nil && len(results) != len(specs) || wanted != nil && len(results) != len(wanted) {
		return nil, fmt.Errorf("the model gave %d outputs, %d were asked for", len(results), max(len(wanted), len(specs)))
	}
	outputs := make(map[string]*weftv1.Tensor, len(results))
	for i, result := range results {
		spec := specs[i]
		if wanted != nil {
			spec = specs[wanted[i]]
		}
		if !utf8.ValidString(spec.Name) {
			// The message could not be sent, and on a stream the attempt would end it for everybody.
			return nil, fmt.Errorf("output %q: its name is not UTF-8, which the API requires: rename it in the model", spec.Name)
		}
		t, err := encodeTensor(result, raw)
		if err != nil {
			return nil, fmt.Errorf("output %q: %w", spec.Name, err)
		}
		outputs[spec.Name] = t
	}
	return outputs, nil
}

// answersRaw decides the representation of the outputs from what was asked for, or else from how the inputs came: raw if at
// least as many came raw as in typed lists.
func answersRaw(encoding weftv1.OutputEncoding, came *[forms]int) bool {
	switch encoding {
	case weftv1.OutputEncoding_OUTPUT_ENCODING_RAW:
		return true
	case weftv1.OutputEncoding_OUTPUT_ENCODING_TYPED:
		return false
	default:
		typed := 0
		for f := formFloat; f < forms; f++ {
			typed += came[f]
		}
		return came[formRaw] >= typed
	}
}
