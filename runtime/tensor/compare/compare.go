// Package compare measures how far two tensors are apart. It alone says what NaN, infinities and large integers count
// for, and tensors of different types or shapes; how much is tolerated is the caller's.
package compare

import (
	"bytes"
	"fmt"
	"slices"

	"github.com/weftserve/weft/runtime/tensor"
)

// Output is one output of an answer.
type Output struct {
	Name string
	tensor.Tensor
	// BatchDim is the dimension along which the rows lie; tensor.NoBatch, or one that the shape does not have: it is
	// one row.
	BatchDim int
	// Labels name the elements of a row, from the first on; nil: they have none.
	Labels []string
}

// Difference says how far a shadow's output is from the primary's. NaN equals NaN, and an infinity itself; a difference
// that no number can express, such as NaN instead of 1, is +Inf.
type Difference struct {
	Name string
	// Mismatch says how type or shape differ, or which side lacks the output. The other fields are then zero.
	Mismatch string
	// MaxAbsolute is the largest difference of an element, MaxRelative the same as a part of the largest finite
	// magnitude of the primary's output: +Inf where that is 0 and the shadow's is not. Of bools and strings both are 1
	// where any differs. Integers beyond 2^53 are rounded.
	MaxAbsolute, MaxRelative float64
	// Cosine is that of the angle between both as vectors, over the elements that are finite in both; 1 where both are
	// zero, 0 where one is. It exists only if HasCosine: not for bools and strings, nor where no element is finite in
	// both.
	Cosine    float64
	HasCosine bool
	// Rows counts the rows of numbers, SameArgmax those whose largest element is at the same place in both. NaN is
	// never the largest; of equal elements the first is.
	Rows, SameArgmax int64
	// Agreed: floating point numbers are within the tolerance; everything else is equal, since an integer may well be a
	// name.
	Agreed bool
}

// Outputs compares outputs of equal name, in the primary's order; outputs that only the shadow gives come last.
// tolerance returns the largest MaxRelative with which the named output agrees; 0 asks for equal values. The profiles
// are those of outputs of numbers.
func Outputs(primary, shadow []Output, tolerance func(output string) float64) (all []Difference, seen []*Profile) {
	all, seen = make([]Difference, 0, len(primary)), make([]*Profile, 0, len(primary))
	for i := range primary {
		p := &primary[i]
		d := Difference{Name: p.Name}
		if k := indexOf(shadow, p.Name); k < 0 {
			d.Mismatch = "the shadow does not give it"
		} else if d.Mismatch = mismatch(p.Tensor, shadow[k].Tensor); d.Mismatch == "" {
			if s := d.measure(p, shadow[k].Tensor, tolerance(p.Name)); s != nil {
				seen = append(seen, s)
			}
		}
		all = append(all, d)
	}
	for i := range shadow {
		if name := shadow[i].Name; indexOf(primary, name) < 0 {
			all = append(all, Difference{Name: name, Mismatch: "only the shadow gives it"})
		}
	}
	return all, seen
}

func indexOf(outputs []Output, name string) int {
	return slices.IndexFunc(outputs, func(o Output) bool { return o.Name == name })
}

// mismatch says why two tensors cannot be compared element by element, "" if they can.
func mismatch(primary, shadow tensor.Tensor) string {
	if primary.DType != shadow.DType || !slices.Equal(primary.Shape, shadow.Shape) {
		return fmt.Sprintf("the shadow gives %v %v instead of %v %v", shadow.DType, shadow.Shape, primary.DType,
			primary.Shape)
	}
	if err := primary.Check(); err != nil {
		return fmt.Sprintf("the primary's is broken: %v", err)
	}
	if err := shadow.Check(); err != nil {
		return fmt.Sprintf("the shadow's is broken: %v", err)
	}
	return ""
}

// countable reports whether elements are numbers.
func countable(d tensor.DType) bool { return d != tensor.Bool && d != tensor.String }

// measure fills in everything but the name. It returns the profile, nil of what are no numbers.
func (d *Difference) measure(p *Output, s tensor.Tensor, tolerance float64) *Profile {
	equal := bytes.Equal(p.Data, s.Data)
	if !countable(p.DType) {
		if d.Agreed = equal; !equal {
			d.MaxAbsolute, d.MaxRelative = 1, 1
		}
		return nil
	}
	var w walk
	w.rows(p, s, true)
	d.MaxAbsolute, d.MaxRelative, d.Rows, d.SameArgmax = w.absolute, w.relative, w.count, w.same
	d.Cosine, d.HasCosine = w.cosine(p.Tensor, s)
	d.Agreed = equal || p.DType.IsFloat() && d.MaxRelative <= tolerance
	return w.profile
}
