package tensor

import (
	"reflect"
	"slices"
)

// NoBatch is the BatchDim of a tensor that has no row per request.
const NoBatch = -1

// Spec declares one input or output of a model.
type Spec struct {
	Name  string
	DType DType
	// Shape has Unknown where the size varies from request to request.
	Shape Shape
	// DimNames has the symbolic name of each dimension, "" where the model gives none; nil when it names none at all.
	DimNames []string
	// BatchDim is the dimension along which the rows of several requests are joined, or NoBatch.
	BatchDim int
	// Variable is set on inputs one of whose dimensions differs from request to request within stated bounds; else nil.
	Variable *Variable
	// Shown is set where clients of the Open Inference Protocol see more or something else than this; else nil.
	Shown *Shown
}

// Shown is what the model's settings tell such clients of a tensor.
type Shown struct {
	// Shape is the one that they send or get in the place of the model's own, which is Own here: that has as many
	// elements, and as many sizes that vary, in the same order. nil: they see Spec.Shape.
	Shape, Own Shape
	// Labels name the elements of each row, for classification, from the first on. LabelFile is where they are from.
	Labels    []string
	LabelFile string
}

// Signature lists a model's inputs and outputs, in the model's own order. It is immutable once published.
type Signature struct {
	Inputs, Outputs []Spec
	// Optional are further inputs, which have a default and no rows. A request that brings some has their tensors behind
	// those of Inputs, with the DType Invalid where it leaves one out, and is run by itself: what is known of the rows is
	// true with the defaults only.
	Optional []Spec
	// Notes are remarks for readers of the metadata, such as on an output that cannot be served and why.
	Notes []string
}

// Input returns the position of the named input, or -1.
func (s *Signature) Input(name string) int { return indexOf(s.Inputs, name) }

// Output returns the position of the named output, or -1.
func (s *Signature) Output(name string) int { return indexOf(s.Outputs, name) }

// MostInputs returns how many inputs a request may bring.
func (s *Signature) MostInputs() int { return len(s.Inputs) + len(s.Optional) }

// Known reports whether a request may bring an input of that name.
func (s *Signature) Known(name string) bool {
	return s.Input(name) >= 0 || indexOf(s.Optional, name) >= 0
}

// Takes returns input i of the ones that a request may bring, and whether it may be left out.
func (s *Signature) Takes(i int) (input *Spec, optional bool) {
	if n := len(s.Inputs); i >= n {
		return &s.Optional[i-n], true
	}
	return &s.Inputs[i], false
}

// Same reports whether requests that were checked against one signature may be run under the other. Either may be nil.
func (s *Signature) Same(other *Signature) bool {
	return s == other || s != nil && other != nil && reflect.DeepEqual(s.Inputs, other.Inputs) &&
		reflect.DeepEqual(s.Outputs, other.Outputs) && reflect.DeepEqual(s.Optional, other.Optional)
}

// Clone returns a copy that shares nothing that is ever written.
func (s *Signature) Clone() *Signature {
	return &Signature{
		Inputs: slices.Clone(s.Inputs), Outputs: slices.Clone(s.Outputs), Optional: slices.Clone(s.Optional),
		Notes: slices.Clone(s.Notes),
	}
}

func indexOf(specs []Spec, name string) int {
	return slices.IndexFunc(specs, func(s Spec) bool { return s.Name == name })
}
