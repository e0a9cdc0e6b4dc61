package serving

import (
	"regexp"

	"github.com/weftserve/weft/runtime/modelrepo"
	"github.com/weftserve/weft/runtime/tensor"
)

// pairForms are how exporters name an input that is, in the next request, what an output was, and that output. Of a
// whole family all must have one.
var pairForms = []struct {
	input   *regexp.Regexp // whose first group names what it is
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

// stateNames match what is state and nothing else. An image_in has an image_out, too, and a joint_state is observed.
var stateNames = regexp.MustCompile(`(?i)^(?:` +
	`(?:\d+\.(?:decoder\.)?|(?:key_values?|kv)?[_.]?\d+[_.]?)(?:key|value)?|` + // of past_key_values.0.key, past_0
	`(?:.+[_.])?cache(?:[_.]?\d+)?|` +
	`(?:(?:actor|critic|policy)[_.])?(?:` + recurrentWord + `)(?:[_.](?:` + recurrentWord + `))*)$`)

const recurrentWord = `(?:rnn|lstm|gru|recurrent|hidden|cell|carry|memory|state|hx|cx|h|c)(?:[_.]?\d+)?`

// findPairs returns the inputs that are, in the next request, what an output was, where names and shapes leave no doubt
// of any of them; else none.
func findPairs(sig *tensor.Signature) (pairs []modelrepo.StatePair) {
	taken := map[string]bool{}
	for i := range sig.Inputs {
		in := &sig.Inputs[i]
		var found []string
		for _, form := range pairForms {
			match := form.input.FindStringSubmatch(in.Name)
			if match == nil {
				continue
			}
			known := stateNames.MatchString(match[1])
			for _, to := range form.outputs {
				o := sig.Output(form.input.ReplaceAllString(in.Name, to))
				switch fits := o >= 0 && recurs(in, &sig.Outputs[o]); {
				case o < 0 || !known && !fits:
				case known != fits: // it may be one, or some other thing of that name
					return nil
				default:
					found = append(found, sig.Outputs[o].Name)
				}
			}
			if form.whole && known && len(found) == 0 {
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
