package proof

import (
	"fmt"
	"slices"

	"github.com/weftserve/weft/runtime/tensor"
)

// A model may do something else for each single value, such as a flag, an id, or a text with a space. There are too
// many to run rows of each alone. So rows with all of them are run in large batches, and then with other mates.

// spread is rows that are to be made up for some inputs, each with special values in some of its elements.
type spread struct {
	inputs []int
	with   string // as in "with <with>"
	rows   []special
}

// special is one of the rows: its other elements are those of an ordinary row.
type special struct {
	value
	has   func(k int) bool // whether element k has the value
	apart bool             // no other element has it
}

// spreads returns the rows to try in batches of a size: numbers in all inputs at once, and integers one input at a
// time, because one may be the number of a thing that there are few of. Integers are at most as large as most says of
// the input.
func (t *trial) spreads(base *baseline, size int, most func(input int) int64) (all []spread) {
	s := t.decision.Signature
	for i := range s.Inputs {
		in := &s.Inputs[i]
		if in.BatchDim == tensor.NoBatch {
			continue
		}
		if k := slices.IndexFunc(all, func(o spread) bool { return s.Inputs[o.inputs[0]].DType == in.DType }); k >= 0 &&
			!isInteger(in.DType) {
			all[k].inputs = append(all[k].inputs, i)
			continue
		}
		n, _ := base.sets[0][i].Shape.Elements()
		if values := specialValues(in.DType, most(i)); n > 0 && len(values) > 0 {
			rows := specials(values, int(n), in.DType != tensor.String)
			all = append(all, spread{
				inputs: []int{i}, with: fmt.Sprintf("special values of input %q", in.Name),
				rows: rows[:min(len(rows), size*spreadRuns/2)],
			})
		}
	}
	return all
}

// spreadSize is how many rows are run at once.
func spreadSize(base *baseline, most int) int {
	return max(1, min(most, trialBytes/4/max(base.bytes, 1)))
}

// specials returns rows that have each value in one half of the n elements, or the other, and such that have a zero or
// a one so many times.
func specials(values []value, n int, counted bool) (rows []special) {
	for _, v := range values {
		for phase := range min(n, 2) {
			rows = append(rows, special{value: v, has: func(k int) bool { return k%2 == phase }})
		}
	}
	const most = 16
	for count := 1; counted && n > 2 && count <= min(n, most); count++ {
		for v := range 2 {
			both := number(float64(v))
			both.least, both.ints = int64(v), 1
			end := count * n / min(n, most)
			rows = append(rows, special{
				value: both, apart: true, has: func(k int) bool { return (k+count)%n < end },
			})
		}
	}
	return rows
}

// make makes up one of the rows, like one of the baseline in all other elements.
func (r *special) make(t *trial, set []tensor.Tensor, inputs []int) []tensor.Tensor {
	set = slices.Clone(set)
	for _, i := range inputs {
		like := set[i]
		if isInteger(like.DType) && r.apart {
			like = palette{least: 2, ints: 6}.tensor(like.DType, like.Shape, t.rng)
		}
		one := r.tensor(like.DType, tensor.Shape{1}, t.rng).Data
		set[i] = replaced(like, one, r.has)
	}
	return set
}

// replaced returns a tensor some of whose elements are another one.
func replaced(t tensor.Tensor, one []byte, which func(k int) bool) tensor.Tensor {
	next := tensor.Tensor{DType: t.DType, Shape: t.Shape, Data: make([]byte, 0, len(t.Data))}
	for k, rest := 0, t.Data; len(rest) > 0; k++ {
		size := t.DType.Size()
		if t.DType == tensor.String {
			_, after, _ := tensor.NextString(rest)
			size = len(rest) - len(after)
		}
		element := rest[:size]
		if which(k) {
			element = one
		}
		next.Data, rest = append(next.Data, element...), rest[size:]
	}
	return next
}
