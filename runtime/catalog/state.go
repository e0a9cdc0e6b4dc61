package catalog

import (
	"slices"
	"time"

	"github.com/weftserve/weft/runtime/tensor"
)

// EpisodeState says which inputs of a version the server keeps between the requests of an episode. Immutable.
type EpisodeState struct {
	// Inputs are kept, ascending by Input.
	Inputs []StateInput
	// Start is the input that is 1 in the first request of an episode, unless that brings some of Inputs, and 0 in all
	// others, by its place in Signature.Inputs; -1: there is none.
	Start int
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
		(input == s.Start || slices.ContainsFunc(s.Inputs, func(in StateInput) bool { return in.Input == input }))
}

// Filled returns how many inputs Fills is true of.
func (s *EpisodeState) Filled() int {
	n := len(s.Inputs)
	if s.Start >= 0 {
		n++
	}
	return n
}

// StateInput is an input that the server fills.
type StateInput struct {
	Input int // its place in Signature.Inputs
	// Output is the place in Signature.Outputs of what it is in the next request; -1: it is a window of an input.
	Output int
	// Window is how many requests a window goes back, whose values lie one behind the other, the latest last; 0: it is
	// none, but what the output was.
	Window int
	// Of is the place in Signature.Inputs of what a window is of, the present request included, if Output is -1.
	Of int
	// Initial is one row of it in the first request: its shape has 1 where rows are, or it has no rows.
	Initial tensor.Tensor
}

// StateChange is a value of EpisodeState.OnChange.
type StateChange uint8

// The changes.
const (
	RefuseChange StateChange = iota // that step is refused; the state stays for the version that has it
	ResetChange                     // the other version goes on from the initial state
	CarryChange                     // the other version goes on, if its state has the same names and shapes
)
