package proof

import (
	"bytes"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/weftserve/weft/runtime/tensor"
)

// steps returns how many combinations of buckets are tried. Where inputs of different length each have their own
// buckets, the first of one go with the first of the others, and so on: to try each with each would take too long.
func (d *Decision) steps() int {
	most := 0
	for k := range d.variables {
		most = max(most, len(d.variables[k].Buckets))
	}
	return most
}

// at returns the bucket of a step.
func (v *variable) at(step int) int64 { return v.Buckets[min(step, len(v.Buckets)-1)] }

// least returns the smallest length that has the step's bucket.
func (v *variable) least(step int) int64 {
	if i := min(step, len(v.Buckets)-1); i > 0 {
		return v.Buckets[i-1] + 1
	}
	return 1
}

// bucket names the lengths of a step, such as "32 (ids), 8 (labels)", or "32" where there is no other.
func (d *Decision) bucket(step int) string {
	var parts []string
	for k := range d.variables {
		if v := &d.variables[k]; v.Like == v.input {
			parts = append(parts, fmt.Sprintf("%d (%s)", v.at(step), d.name(v)))
		}
	}
	if len(parts) == 1 {
		return strconv.FormatInt(d.variables[0].at(step), 10)
	}
	return strings.Join(parts, ", ")
}

// extents returns the sizes to try for open dimensions: the usual ones, and the buckets, since a model may take nothing
// else.
func (d *Decision) extents() []int64 {
	all := slices.Clone(extents)
	if len(d.variables) > 0 {
		all = append(all, d.variables[0].Buckets...)
	}
	return all
}

// stretchedSample makes up one row whose lengths have the step's buckets: of the first sample they fill them, of the
// others they are the smallest, the middle, and the one below the bucket in turn. Inputs that are neither variable nor
// have rows are as in the baseline.
func (t *trial) stretchedSample(base *baseline, step, sample int) []tensor.Tensor {
	d := t.decision
	inputs := make([]tensor.Tensor, len(d.Signature.Inputs))
	for i := range inputs {
		spec, like := &d.Signature.Inputs[i], base.sets[0][i]
		k := slices.IndexFunc(d.variables, func(v variable) bool { return v.input == i })
		switch {
		case k < 0 && spec.BatchDim == tensor.NoBatch:
			inputs[i] = like
		case k < 0:
			inputs[i] = base.palette.tensor(spec.DType, like.Shape, t.rng)
		default:
			v := &d.variables[k]
			shape := like.Shape.With(v.Dim, d.sampleLength(v.Like, step, sample))
			if strings.Contains(strings.ToLower(spec.Name), "mask") {
				inputs[i] = present(spec.DType, shape, v.Pad)
			} else {
				inputs[i] = base.palette.tensor(spec.DType, shape, t.rng)
			}
		}
	}
	return inputs
}

// tooLarge reports whether made-up inputs as long as the step's buckets would take more memory than a proof may.
func (d *Decision) tooLarge(base *baseline, step int) bool {
	total := int64(0)
	for i, in := range base.sets[0] {
		shape := in.Shape
		if k := slices.IndexFunc(d.variables, func(v variable) bool { return v.input == i }); k >= 0 {
			shape = shape.With(d.variables[k].Dim, d.variables[k].at(step))
		}
		n, ok := shape.Elements()
		if !ok || n > trialBytes {
			return true
		}
		total += n * int64(max(in.DType.Size(), 1))
	}
	return total > trialBytes/sampleRows
}

// sampleLength returns the length of the inputs that are as long as input like.
func (d *Decision) sampleLength(like, step, sample int) int64 {
	k := slices.IndexFunc(d.variables, func(v variable) bool { return v.input == like })
	least, bucket := d.variables[k].least(step), d.variables[k].at(step)
	if sample == 0 {
		return bucket
	}
	// Different lengths change out of step, so that an output shows which of them it follows.
	return []int64{least, (least + bucket) / 2, max(least, bucket-1)}[(sample+k)%3]
}

// present makes up a mask: random ones would mask present elements, and padding shows on inputs that are masked
// altogether. By convention 1 (or true) marks a present element, or 0 where the padding is something else. It panics
// for tensor.Invalid, which no engine declares.
func present(dtype tensor.DType, shape tensor.Shape, pad []byte) tensor.Tensor {
	text := "1"
	if slices.ContainsFunc(pad, func(b byte) bool { return b != 0 }) && dtype != tensor.String {
		text = "0"
	}
	n, _ := shape.Elements()
	one, err := tensor.ParseElement(dtype, text)
	if err != nil {
		panic(fmt.Sprintf("proof: %v has no element %s: %v", dtype, text, err))
	}
	return tensor.Tensor{DType: dtype, Shape: shape, Data: bytes.Repeat(one, int(n))}
}
