package server

import (
	"fmt"
	"unicode/utf8"

	weftv1 "github.com/weftserve/weft/proto/gen/weft/v1"
	"github.com/weftserve/weft/runtime/tensor"
	"github.com/weftserve/weft/server/wire"
)

// forms counts the inputs of a request that came in each form.
type forms [wire.Typed + 1]int

// decodeInput reads the message of an input. The error is a *tensor.FieldError.
func decodeInput(spec *tensor.Spec, m *weftv1.Tensor) (tensor.Tensor, wire.Form, error) {
	t, form, err := wire.Decode(spec, m)
	if err != nil {
		return t, form, inInput(spec.Name, err)
	}
	return t, form, nil
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
		if err := result.Check(); err != nil {
			return nil, fmt.Errorf("output %q: %w", spec.Name, err)
		}
		outputs[spec.Name] = wire.Encode(result, raw)
	}
	return outputs, nil
}

// answersRaw decides the representation of the outputs from what was asked for, or else from how the inputs came: raw if at
// least as many came raw as in typed lists.
func answersRaw(encoding weftv1.OutputEncoding, came *forms) bool {
	switch encoding {
	case weftv1.OutputEncoding_OUTPUT_ENCODING_RAW:
		return true
	case weftv1.OutputEncoding_OUTPUT_ENCODING_TYPED:
		return false
	default:
		return came[wire.Raw] >= came[wire.Typed]
	}
}
