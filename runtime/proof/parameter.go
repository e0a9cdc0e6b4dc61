package proof

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strconv"
	"strings"

	"github.com/weftserve/weft/runtime/tensor"
)

// assignment is values for the inputs without rows, by input; those of other inputs are not looked at.
type assignment struct {
	name   string // as in "with <name>"
	values []tensor.Tensor
	// input and number are of a single integer that is varied by itself: the input, or -1, and the value.
	input  int
	number int64
}

// The values that are tried for inputs without rows: a model may do something else for each of them, such as to train.
// Integers come in the order of their magnitude, since how much a model does may depend on them.
var (
	parameterInts   = []int64{0, 1, -1, 2, 3, 7, -101, 101, 1001, 1_000_003}
	parameterFloats = []float64{0, 1, -1, 0.5, 60, -1e3, 1e3, 1e30, math.NaN(), math.Inf(1)}
)

// jointly is how many assignments vary all inputs without rows at once.
const jointly = 8

// assignments returns the sets of inputs without rows that are to be tried: each value of each by itself, then some
// jointly.
func (t *trial) assignments(base *baseline) (all []assignment) {
	s := t.decision.Signature
	choices := map[int][]assignment{}
	for i := range s.Inputs {
		if s.Inputs[i].BatchDim != tensor.NoBatch {
			continue
		}
		for _, c := range t.choices(i, base.sets[0]) {
			choices[i] = append(choices[i], c)
			all = append(all, c)
		}
	}
	if len(choices) < 2 {
		return all
	}
	for range jointly {
		joint := assignment{values: make([]tensor.Tensor, len(s.Inputs)), input: -1}
		var names []string
		for i := range s.Inputs {
			if c := choices[i]; len(c) > 0 {
				// the tame ones: together with others, large ones are mostly refused
				one := c[t.rng.IntN(min(len(c), 6))]
				joint.values[i] = one.values[i]
				names = append(names, one.name)
			}
		}
		joint.name = strings.Join(names, ", ")
		all = append(all, joint)
	}
	return all
}

// choices returns assignments that differ in one input without rows.
func (t *trial) choices(i int, like []tensor.Tensor) (all []assignment) {
	spec := &t.decision.Signature.Inputs[i]
	add := func(what string, p palette, number int64) {
		a := assignment{
			name: fmt.Sprintf("input %q = %s", spec.Name, what), values: make([]tensor.Tensor, len(like)),
			input: i, number: number,
		}
		a.values[i] = p.tensor(spec.DType, like[i].Shape, t.rng)
		all = append(all, a)
	}
	switch {
	case spec.DType == tensor.Bool:
		add("false", palette{ints: 1}, 0)
		add("true", palette{least: 1, ints: 1}, 0)
	case spec.DType == tensor.String:
		add(`""`, palette{}, 0)
		add("some word", palette{words: true}, 0)
	case spec.DType.IsFloat():
		for _, v := range parameterFloats {
			add(fmt.Sprint(v), palette{float: func(*rand.Rand) float64 { return v }}, 0)
		}
	default:
		for _, v := range parameterInts {
			add(strconv.FormatInt(v, 10), palette{least: v, ints: 1}, v)
		}
	}
	if n, _ := like[i].Shape.Elements(); n > 1 {
		add("some values", palettes[0], 0)
	}
	return all
}
