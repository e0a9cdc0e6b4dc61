package serving

import (
	"regexp"

	"github.com/weftserve/weft/runtime/modelrepo"
	"github.com/weftserve/weft/runtime/tensor"
)

// pairForms are how exporters name an input that is, in the next request, what an output was, and that output. Of a
// whole family all must have one.
var pairForms = []struct {
	input   *regexp.Regexp
	outputs []string
	whole   bool
}{
	{regexp.MustCompile(`^past_key_values\.(\d+\..+)$`), []string{"present.$1"}, true},
	{regexp.MustCompile(`^past_(.+)$`), []string{"present_$1"}, true},
	{regexp.MustCompile(`^prev_(.+)$`), []string{"next_$1"}, true},
	{regexp.MustCompile(`^(.+)_in$`), []string{"${1}_out"}, false},
	{regexp.MustCompile(`^(.*[^_])_?0$`), []string{"${1}n", "${1}_n"}, false},
	{regexp.MustCompile(`^(.+)$`), []string{"${1}n", "${1}N", "${1}_n", "${1}_out"}, false},
}

// FindPairs returns the inputs that are, in the next request, what an output was, where names and shapes leave no doubt
// of that; else none.
func FindPairs(sig *tensor.Signature) (pairs []modelrepo.StatePair) {
	taken := map[string]bool{}
	for i := range sig.Inputs {
		in := &sig.Inputs[i]
		var found []string
		for _, form := range pairForms {
			if !form.input.MatchString(in.Name) {
				continue
			}
			for _, to := range form.outputs {
				switch o := sig.Output(form.input.ReplaceAllString(in.Name, to)); {
				case o < 0:
				case !recurs(in, &sig.Outputs[o]):
					return nil
				default:
					found = append(found, sig.Outputs[o].Name)
				}
			}
			if form.whole && len(found) == 0 {
				return nil
			}
		}
		switch {
		case len(found) == 0:
			continue
		case len(found) > 1 || taken[found[0]]:
			return nil
		}
		taken[found[0]] = true
		pairs = append(pairs, modelrepo.StatePair{Input: in.Name, Output: found[0]})
	}
	if len(pairs) == len(sig.Inputs) || len(pairs) == len(sig.Outputs) { // requests bring something, and are answered
		return nil
	}
	return pairs
}

// recurs reports whether an input may be what an output was: a size that varies does in both, where the output says so.
func recurs(in, out *tensor.Spec) bool {
	if in.DType != out.DType || in.DType == tensor.String || in.BatchDim != out.BatchDim ||
		len(in.Shape) != len(out.Shape) {
		return false
	}
	for d, n := range in.Shape {
		if n != out.Shape[d] && out.Shape[d] != tensor.Unknown {
			return false
		}
	}
	return true
}
