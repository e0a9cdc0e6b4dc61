//go:build linux

package worker

import (
	"errors"
	"fmt"
	"slices"

	"github.com/weftserve/weft/runtime/engine"
	"github.com/weftserve/weft/runtime/tensor"
)

// opened describes a session that was opened, as engine.Opened does. The server keeps it.
type opened struct {
	Signature *tensor.Signature `json:"signature"`
	Device    string            `json:"device"`
	Provider  string            `json:"provider"`
	Notes     []string          `json:"notes,omitempty"`
	Stats     engine.Stats      `json:"stats"`
}

// What is kept of a session, besides a signature that a lane's page has room for.
const (
	maxNotes = 1000
	maxName  = 256 // bytes of a provider's name
)

// check returns what an engine cannot have said of a model that it was to open on a device: the server relies on it,
// and keeps it.
func (o *opened) check(device string) error {
	switch {
	case o == nil || o.Signature == nil:
		return errors.New("there is no signature")
	case o.Device != device && o.Device != processor:
		return fmt.Errorf("the model is on the device %q, expected %q or %q", o.Device[:min(len(o.Device), maxName)],
			device, processor)
	case len(o.Provider) > maxName:
		return fmt.Errorf("the name of the provider has %d bytes, expected at most %d", len(o.Provider), maxName)
	case o.Stats.Process != engine.Process{} || o.Stats.Memory.Peak < 0 || o.Stats.Memory.Held < 0:
		return errors.New("it has deaths, or less memory than none")
	case len(o.Notes) > maxNotes || len(o.Signature.Notes) > maxNotes:
		return fmt.Errorf("there are %d notes, and %d on the signature, expected at most %d", len(o.Notes),
			len(o.Signature.Notes), maxNotes)
	}
	inputs := slices.Concat(o.Signature.Inputs, o.Signature.Optional)
	for what, specs := range map[string][]tensor.Spec{"input": inputs, "output": o.Signature.Outputs} {
		c := &cursor{half: make([]byte, halfBytes)}
		for i := range specs {
			s := &specs[i]
			if err := checkSpec(s); err != nil {
				return fmt.Errorf("%s %q %w", what, s.Name[:min(len(s.Name), maxName)], err)
			}
			c.putTensor(0, &tensor.Tensor{Shape: s.Shape})
		}
		if c.bad {
			return fmt.Errorf("it has %d %ss, more than can be handed over at once (about %d); join some of them",
				len(specs), what, halfBytes/(4*8+8))
		}
	}
	return nil
}

func checkSpec(s *tensor.Spec) error {
	switch {
	case s.DType.Size() == 0 && s.DType != tensor.String:
		return fmt.Errorf("has the element type %v", s.DType)
	case s.DimNames != nil && len(s.DimNames) != len(s.Shape):
		return fmt.Errorf("has %d dimensions with %d names", len(s.Shape), len(s.DimNames))
	case s.BatchDim != tensor.NoBatch || s.Variable != nil || s.Shown != nil:
		return errors.New("has a batch dimension, a variable one, or one that clients see: not for the engine to say")
	}
	for _, d := range s.Shape {
		if d < tensor.Unknown {
			return fmt.Errorf("has a dimension of size %d", d)
		}
	}
	return nil
}
