package predict

import (
	"fmt"
	"slices"
	"strings"

	"github.com/weftserve/weft/runtime/catalog"
	"github.com/weftserve/weft/runtime/tensor"
	"github.com/weftserve/weft/server/routing"
)

// checkNames refuses a request that lacks an input, or that brings one that the model does not have.
func checkNames(req *Request, v *catalog.Version) error {
	sig := v.Signature
	came := req.names()
	foreign := foreignNames(sig, came)
	for i := range sig.Inputs {
		spec := &sig.Inputs[i]
		if came[spec.Name] || req.fills(v, i) {
			continue
		}
		got := "none of that name"
		if foreign != "" {
			got += ", but " + foreign
		}
		if v.EpisodeState.Fills(i) {
			got += "; the server keeps it in an episode (episode_id and begin_episode, or sequence_id and sequence_start)"
		}
		return &tensor.FieldError{
			Field: inputField(spec.Name), Want: fmt.Sprintf("a tensor of %v %v", spec.DType, spec.Shape), Got: got,
		}
	}
	if foreign != "" {
		return &tensor.FieldError{
			Field: "inputs", Want: "only " + specNames(slices.Concat(sig.Inputs, sig.Optional)), Got: "also " + foreign,
		}
	}
	return nil
}

// names returns the names of the inputs that came. It is asked only where something is wrong with them, or where
// another number of them came than the model must have.
func (r *Request) names() map[string]bool {
	came := make(map[string]bool, r.Inputs)
	for name := range r.Codec.Names() {
		came[name] = true
	}
	return came
}

// foreignNames lists a few of the inputs that the model does not have.
func foreignNames(sig *tensor.Signature, came map[string]bool) string {
	// As many as a message should repeat of what a caller sent.
	const few = 4
	var names []string
	more := ""
	for name := range came {
		if sig.Known(name) {
			continue
		}
		if len(names) == few {
			more = " and more"
			break
		}
		names = append(names, routing.Quote(name))
	}
	slices.Sort(names)
	return strings.Join(names, ", ") + more
}

// specNames lists the names of a signature.
func specNames(specs []tensor.Spec) string {
	names := make([]string, len(specs))
	for i, spec := range specs {
		names[i] = routing.Quote(spec.Name)
	}
	return routing.List(names)
}

// wantedOutputs returns the places of the named outputs, nil for all.
func wantedOutputs(sig *tensor.Signature, names []string) ([]int, error) {
	if len(names) == 0 {
		return nil, nil
	}
	if len(names) > len(sig.Outputs) {
		return nil, &tensor.FieldError{
			Field: "outputs", Want: fmt.Sprintf("at most %d names, each once", len(sig.Outputs)),
			Got: fmt.Sprintf("%d names", len(names)),
		}
	}
	wanted := make([]int, len(names))
	for i, name := range names {
		if wanted[i] = sig.Output(name); wanted[i] < 0 {
			return nil, &tensor.FieldError{
				Field: outputField(i), Want: "one of " + specNames(sig.Outputs), Got: routing.Quote(name),
			}
		}
		if slices.Contains(wanted[:i], wanted[i]) {
			return nil, &tensor.FieldError{Field: outputField(i), Want: "each output once", Got: routing.Quote(name) + " again"}
		}
	}
	return wanted, nil
}

func outputField(i int) string { return fmt.Sprintf("outputs[%d]", i) }
