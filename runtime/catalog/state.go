package catalog

import (
	"fmt"
	"slices"
	"time"

	"github.com/weftserve/weft/runtime/tensor"
)

// EpisodeState says which inputs of a version the server keeps between the requests of an episode. Immutable.
type EpisodeState struct {
	// Found: no settings say so, but names and shapes. Callers who bring all of it themselves must not notice.
	Found bool
	// Inputs are kept, ascending by Input.
	Inputs []StateInput
	// Doubt says what the names of the model tell that the settings do not; "": nothing.
	Doubt string
	// Controls are inputs that tell the model about the request.
	Controls []StateControl
	// MaxEpisodes is how many episodes the version may have at a time.
	MaxEpisodes int
	// Idle is how long an episode lasts without a request.
	Idle time.Duration
	// OnChange is what becomes of an episode when another version is to answer it.
	OnChange StateChange
	// OfStream: an episode ends with the stream that it began on.
	OfStream bool
}

// Fills reports whether the server may fill an input, by its place in Signature.Inputs. A nil state fills none.
func (s *EpisodeState) Fills(input int) bool {
	return s != nil &&
		(slices.ContainsFunc(s.Controls, func(c StateControl) bool { return c.Input == input }) ||
			slices.ContainsFunc(s.Inputs, func(in StateInput) bool { return in.Input == input && !in.ofItself() }))
}

// Filled returns how many inputs Fills is true of.
func (s *EpisodeState) Filled() int {
	n := len(s.Controls)
	for i := range s.Inputs {
		if !s.Inputs[i].ofItself() {
			n++
		}
	}
	return n
}

// Keeps reports whether an output, by its place in Signature.Outputs, is for the next request of an episode, and no
// answer to this one unless it names it. A nil state keeps none.
func (s *EpisodeState) Keeps(output int) bool {
	return s != nil && slices.ContainsFunc(s.Inputs, func(in StateInput) bool {
		return in.Output == output && in.Window == 0
	})
}

// StateControl is an input that the server sets in each request of an episode.
type StateControl struct {
	Input int // its place in Signature.Inputs
	Kind  StateControlKind
}

// StateControlKind is what such an input says.
type StateControlKind uint8

// The kinds, as Triton has them.
const (
	StartControl StateControlKind = iota // 1 in the first request, unless that brings some of the state; else 0
	EndControl                           // 1 in the last request, else 0
	ReadyControl                         // 1
	IDControl                            // the name of the episode, which must be a number
)

// StateInput is an input that the server fills.
type StateInput struct {
	Input int // its place in Signature.Inputs
	// Output is the place in Signature.Outputs of what it is in the next request; -1: it is a window of an input.
	Output int
	// Window is how many requests a window goes back, whose values lie one behind the other, the latest last; 0: it is
	// none, but what the output was.
	Window int
	// Of is the place in Signature.Inputs of what a window is of, the present request included, if Output is -1. It may
	// be Input: a request brings the newest value there, or the whole window.
	Of int
	// Initial is one row of it in the first request: its shape has 1 where rows are, or it has no rows.
	Initial tensor.Tensor
}

func (in *StateInput) ofItself() bool { return in.Output < 0 && in.Of == in.Input }

// values returns the dimension of a window's spec along which its values lie.
func values(spec *tensor.Spec) int {
	if spec.BatchDim == tensor.NoBatch {
		return 0
	}
	return spec.BatchDim + 1
}

// Window returns the input of that place in Signature.Inputs if it is a window of itself; nil: it is none.
func (s *EpisodeState) Window(input int) *StateInput {
	for i := range s.Inputs {
		if in := &s.Inputs[i]; in.Input == input && in.ofItself() {
			return in
		}
	}
	return nil
}

// Loose returns what a window of itself, whose spec is given, may bring: also its newest value, so that their number is
// open.
func (in *StateInput) Loose(spec *tensor.Spec) *tensor.Spec {
	loose := *spec
	loose.Shape = spec.Shape.With(values(spec), tensor.Unknown)
	return &loose
}

// Wants says what a window of itself may bring, such as "[?,1,6], the newest value, or [?,4,6], all of them".
func (in *StateInput) Wants(spec *tensor.Spec) string {
	d := values(spec)
	one := spec.Shape.With(d, spec.Shape[d]/int64(in.Window))
	return fmt.Sprintf("%v, the newest value, or %v, all of them", one, spec.Shape)
}

// Newest reports whether a tensor, which Loose accepts, brings only the newest value of a window of itself.
func (in *StateInput) Newest(spec *tensor.Spec, t *tensor.Tensor) bool {
	d := values(spec)
	return in.ofItself() && t.DType != tensor.Invalid && t.Shape[d]*int64(in.Window) == spec.Shape[d]
}

// StateChange is a value of EpisodeState.OnChange.
type StateChange uint8

// The changes.
const (
	RefuseChange StateChange = iota // that step is refused; the state stays for the version that has it
	ResetChange                     // the other version goes on from the initial state
	CarryChange                     // the other version goes on, if its state has the same names and shapes
)
