package predict

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/weftserve/weft/runtime/catalog"
	"github.com/weftserve/weft/runtime/tensor"
	"github.com/weftserve/weft/server/episode"
	"github.com/weftserve/weft/sharedsched"
)

// EndStream ends what is to end with a stream, as Request.StreamID names it.
func (p *Pipeline) EndStream(stream any) { p.config.Episodes.EndStream(stream) }

// EndEpisode ends the episode of a caller, by its name: no further step comes.
func (p *Pipeline) EndEpisode(caller, model, name string) {
	p.config.Episodes.End(episode.Key{Identity: caller, Model: model, Episode: name})
}

// EpisodesOf returns how many episodes of a model the server keeps the state of, and the bytes of it.
func (p *Pipeline) EpisodesOf(model string) (live int, bytes int64) {
	return p.config.Episodes.Of(model)
}

// fills reports whether the server may fill input i of a version for a request.
func (r *Request) fills(v *catalog.Version, i int) bool {
	return r.Episode != "" && v.EpisodeState.Fills(i)
}

// episodeOf names the request's episode in a version.
func (r *Request) episodeOf(v *catalog.Version) episode.Key {
	return episode.Key{Identity: r.caller(), Model: v.Model, Episode: r.Episode}
}

// enterEpisode waits for the request's turn in its episode, where the version keeps the state of episodes. leaveEpisode
// must follow. The flight has no turn then if there is no state to keep.
func (p *Pipeline) enterEpisode(ctx context.Context, f *flight) error {
	req, call := f.req, &f.call
	v := call.Version
	if v.EpisodeState == nil || req.Episode == "" {
		return nil
	}
	ask := episode.Ask{
		Key:     req.episodeOf(v),
		Version: v, Begin: req.BeginEpisode, Last: req.EndOfEpisode, Step: req.Step, Brought: true,
		Stream: req.StreamID, After: req.After, AfterBegin: req.AfterBegin,
		Stay:  f.keeper == 0 && req.Choice.Version == nil,
		Limit: call.Limit, Late: sharedsched.ErrExpired,
	}
	for _, in := range v.EpisodeState.Inputs {
		ask.Brought = ask.Brought && call.Inputs[in.Input].DType != tensor.Invalid
	}
	if ask.Brought && v.EpisodeState.Found && req.MayKeepState {
		ask.Begin = false
	}
	var err error
	if ask.Rows, ask.Newest, err = brought(req, call); err != nil {
		if ask.Brought && v.EpisodeState.Found && !ask.Begin {
			return nil // it is refused as by any model, if it is
		}
		return err
	}
	ask.Brought = ask.Brought && ask.Newest == nil
	if ask.Limit.IsZero() && v.MaxLatency > 0 {
		ask.Limit = time.Now().Add(v.MaxLatency)
	}
	call.Inputs = slices.Clone(call.Inputs) // flight.inputs stay as they came
	entered, err := p.config.Episodes.Enter(ctx, &ask)
	f.observed.step.Waited += ask.Waited
	switch {
	case err != nil:
		return err
	case entered == nil:
		return ask.Control(call.Inputs)
	}
	call.Limit = ask.Limit
	if call.Wanted == nil { // the state is for the caller, too, where it is from there
		call.Wanted = make([]int, 0, len(v.Signature.Outputs))
		for o := range v.Signature.Outputs {
			if ask.Brought || !v.EpisodeState.Keeps(o) {
				call.Wanted = append(call.Wanted, o)
			}
		}
	}
	f.turn = entered
	if f.turn.Kept == nil {
		f.result.Skipped = entered.Skipped
		return entered.Fill(call.Inputs)
	}
	return nil
}

// elsewhere is the version that has the state of an episode if that is not ready.
const elsewhere = -1

// stays reports whether a step is to be tried again after another version was chosen than has the state of its episode,
// such as by a label that has moved, and not by its number: by the version that has it, or else by the chosen one.
func (f *flight) stays(err error, known *catalog.Snapshot) bool {
	lost, is := errors.AsType[*episode.LostError](err)
	if !is || lost.Of == 0 || f.keeper != 0 || f.req.Choice.Version != nil {
		return false
	}
	m := known.Model(f.result.Model)
	if m == nil {
		return false
	}
	f.keeper = elsewhere
	if v := m.Version(lost.Of); v != nil && v.State == catalog.Ready {
		f.keeper = lost.Of
	}
	return true
}

// brought checks the inputs that a request brings, where the server fills the others, and returns how many rows they
// have, 1 where none of them has rows, and which bring the newest value of a window, nil for none. The error is a
// *tensor.FieldError.
func brought(req *Request, call *catalog.Call) (rows int, newest []bool, err error) {
	v := call.Version
	inputs := call.Inputs
	for i := range v.EpisodeState.Inputs {
		in := &v.EpisodeState.Inputs[i]
		spec, came := &v.Signature.Inputs[in.Input], &call.Inputs[in.Input]
		switch {
		case in.Newest(spec, came):
			if newest == nil {
				newest, inputs = make([]bool, len(v.EpisodeState.Inputs)), slices.Clone(inputs)
			}
			newest[i] = true
			inputs[in.Input].Shape = rowsOf(spec, came.Shape) // the window is going to have as many
		case came.DType != tensor.Invalid && v.EpisodeState.Window(in.Input) != nil && !spec.Shape.Accepts(came.Shape):
			return 0, nil, inInput(spec.Name, &tensor.FieldError{
				Field: "shape", Want: in.Wants(spec), Got: came.Shape.Literal(),
			})
		}
	}
	rows, err = v.Signature.RowsOfSome(inputs)
	switch {
	case err != nil:
		return 0, nil, err
	case rows == 0:
		return 0, nil, &tensor.FieldError{
			Field: "inputs", Want: "a row at least, for the state of an episode", Got: "none",
		}
	}
	return rows, newest, checkRows(req, v.Signature, inputs)
}

// rowsOf returns the shape of a tensor with a spec that has as many rows as another shape.
func rowsOf(spec *tensor.Spec, shape tensor.Shape) tensor.Shape {
	if spec.BatchDim == tensor.NoBatch {
		return spec.Shape
	}
	return spec.Shape.With(spec.BatchDim, shape[spec.BatchDim])
}

// leaveEpisode gives the turn to the next request of the episode. Without an answer the state is as it was. The inputs
// must not be read any more.
func (f *flight) leaveEpisode(memory tensor.Memory, err error) {
	if f.turn == nil {
		return
	}
	if err != nil {
		f.turn.Revert()
	}
	f.turn.Leave(memory)
	f.turn = nil
}

// repeatStep gives a retry the answer that there was. The error is a *tensor.FieldError.
func (p *Pipeline) repeatStep(f *flight) error {
	kept, call := f.turn.Kept, &f.call
	same := slices.Equal(call.Wanted, kept.Wanted)
	if call.Version.Number != kept.Version.Number { // which may have them in another order
		same = len(f.req.Outputs) == 0 || slices.EqualFunc(kept.Wanted, f.req.Outputs, func(o int, name string) bool {
			return kept.Version.Signature.Outputs[o].Name == name
		})
	}
	if !same {
		return &tensor.FieldError{
			Field: "outputs", Want: "the same as in the first request of this step, whose answer is kept", Got: "others",
		}
	}
	// The inputs were read for the version that would answer now.
	call.Version, call.Wanted, call.Inputs, call.Results = kept.Version, kept.Wanted, nil, cloned(kept.Results)
	f.result.Version, f.result.Repeated = kept.Version.Number, true
	if f.req.EndOfEpisode {
		f.turn.End()
	}
	return checkOutputs(f.req, call)
}

// wantState has the outputs that are state run, too, and returns how many there were.
func wantState(call *catalog.Call) (shown int) {
	shown = len(call.Wanted)
	for _, in := range call.Version.EpisodeState.Inputs {
		if in.Output >= 0 && !slices.Contains(call.Wanted, in.Output) {
			call.Wanted = append(call.Wanted, in.Output)
		}
	}
	return shown
}

// takeState returns the outputs of an answered call that are state, and leaves it with as many as there were, whose
// memory is used again.
func takeState(call *catalog.Call, shown int) []tensor.Tensor {
	outputs := make([]tensor.Tensor, len(call.Version.EpisodeState.Inputs))
	for i, in := range call.Version.EpisodeState.Inputs {
		if in.Output >= 0 {
			at := slices.Index(call.Wanted, in.Output)
			if outputs[i] = call.Results[at]; at < shown {
				outputs[i] = outputs[i].Clone()
			}
		}
	}
	call.Wanted, call.Results = call.Wanted[:shown], call.Results[:shown]
	return outputs
}

// commit puts the state of an answered request in the place of the one before, and leaves the call with what is for the
// caller.
func (f *flight) commit() error {
	call := &f.call
	outputs := takeState(call, f.shown)
	var kept *episode.Answer
	if f.req.Step > 0 {
		kept = &episode.Answer{Version: call.Version, Wanted: call.Wanted, Results: cloned(call.Results)}
	}
	return f.turn.Commit(call.Inputs, outputs, kept, f.req.EndOfEpisode)
}

// checkState refuses outputs that are no state of the next step. The error is a *catalog.ModelError.
func checkState(call *catalog.Call) error {
	for i, in := range call.Version.EpisodeState.Inputs {
		if in.Output < 0 {
			continue
		}
		spec, out := call.Version.Signature.Inputs[in.Input], &call.Results[slices.Index(call.Wanted, in.Output)]
		if in.Window > 0 {
			spec = call.Version.Signature.Outputs[in.Output]
		}
		if out.DType != spec.DType || !spec.Shape.Accepts(out.Shape) ||
			spec.BatchDim != tensor.NoBatch && out.Shape[spec.BatchDim] != int64(call.Rows) {
			return &catalog.ModelError{Model: call.Version.Model, Version: call.Version.Number, Err: fmt.Errorf(
				"state %d, output %q: expected %v %v of %d rows, got %v %v", i, call.Version.Signature.Outputs[in.Output].Name,
				spec.DType, spec.Shape, call.Rows, out.DType, out.Shape)}
		}
	}
	return nil
}

func cloned(all []tensor.Tensor) []tensor.Tensor {
	own := slices.Clone(all)
	for i := range own {
		own[i] = own[i].Clone()
	}
	return own
}
