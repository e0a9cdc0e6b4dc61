package predict

import (
	"context"
	"slices"
	"time"

	"github.com/weftserve/weft/runtime/catalog"
	"github.com/weftserve/weft/runtime/tensor"
	"github.com/weftserve/weft/server/episode"
	"github.com/weftserve/weft/sharedsched"
)

// EndStream ends what is to end with a stream, as Request.StreamID names it.
func (p *Pipeline) EndStream(stream any) { p.config.Episodes.EndStream(stream) }

// fills reports whether the server may fill input i of a version for a request.
func (r *Request) fills(v *catalog.Version, i int) bool {
	return r.Episode != "" && v.EpisodeState.Fills(i)
}

// turn is a request's turn in its episode.
type turn struct {
	*episode.Turn
	wanted int // how many of the outputs that are run are for the caller
}

// enterEpisode waits for the request's turn in its episode, where the version keeps the state of episodes. leaveEpisode
// must follow. The flight has no turn then if there is no state to keep.
func (p *Pipeline) enterEpisode(ctx context.Context, f *flight) error {
	req, call := f.req, &f.call
	v := call.Version
	if v.EpisodeState == nil || req.Episode == "" {
		return nil
	}
	rows, err := broughtRows(req, call)
	if err != nil {
		return err
	}
	if call.Limit.IsZero() && v.MaxLatency > 0 {
		call.Limit = time.Now().Add(v.MaxLatency)
	}
	ask := &episode.Ask{
		Key:     episode.Key{Identity: req.caller(), Model: v.Model, Episode: req.Episode},
		Version: v, Begin: req.BeginEpisode, Step: req.Step, Rows: rows, Brought: true,
		Stream: req.StreamID, After: req.After, Limit: call.Limit, Late: sharedsched.ErrExpired,
	}
	for _, in := range v.EpisodeState.Inputs {
		ask.Brought = ask.Brought && call.Inputs[in.Input].DType != tensor.Invalid
	}
	if call.Wanted == nil { // the state is for the caller, too, where it is from there
		for o := range v.Signature.Outputs {
			if ask.Brought || !isState(v, o) {
				call.Wanted = append(call.Wanted, o)
			}
		}
	}
	entered, err := p.config.Episodes.Enter(ctx, ask)
	switch {
	case err != nil:
		return err
	case entered == nil:
		episode.FillStart(v, call.Inputs, rows, false)
		return nil
	}
	f.turn = &turn{Turn: entered}
	if f.turn.Kept == nil {
		f.result.Skipped = entered.Skipped
		entered.Fill(call.Inputs)
	}
	return nil
}

// broughtRows checks the inputs that a request brings, where the server fills the others, and returns how many rows
// they have; 1 where none of them has rows. The error is a *tensor.FieldError.
func broughtRows(req *Request, call *catalog.Call) (int, error) {
	const few = 4
	sig := tensor.Signature{Inputs: make([]tensor.Spec, 0, few)}
	inputs := make([]tensor.Tensor, 0, few)
	rows := false
	for i, in := range call.Inputs[:len(call.Version.Signature.Inputs)] {
		if in.DType == tensor.Invalid {
			continue
		}
		spec := call.Version.Signature.Inputs[i]
		sig.Inputs, inputs = append(sig.Inputs, spec), append(inputs, in)
		rows = rows || spec.BatchDim != tensor.NoBatch
	}
	n, err := sig.Rows(inputs)
	switch {
	case err != nil:
		return 0, err
	case !rows:
		return 1, nil
	case n == 0:
		return 0, &tensor.FieldError{Field: "inputs", Want: "a row at least, for the state of an episode", Got: "none"}
	}
	for i := range sig.Inputs {
		if err := req.CheckRows(&sig.Inputs[i], inputs[i].Shape); err != nil {
			return 0, inInput(sig.Inputs[i].Name, err)
		}
	}
	return n, nil
}

func isState(v *catalog.Version, output int) bool {
	return slices.ContainsFunc(v.EpisodeState.Inputs, func(in catalog.StateInput) bool {
		return in.Output == output && in.Window == 0
	})
}

// leaveEpisode gives the turn to the next request of the episode. Without an answer the state is as it was.
func (f *flight) leaveEpisode(err error) {
	if f.turn == nil {
		return
	}
	if err != nil {
		f.turn.Revert()
	}
	f.turn.Leave()
	f.turn = nil
}

// repeatStep gives a retry the answer that there was. The error is a *tensor.FieldError.
func (p *Pipeline) repeatStep(f *flight) error {
	kept, call := f.turn.Kept, &f.call
	if !slices.Equal(call.Wanted, kept.Wanted) || call.Version.Number != kept.Version.Number && len(f.req.Outputs) > 0 {
		return &tensor.FieldError{
			Field: "outputs", Want: "the same as in the first request of this step, whose answer is kept", Got: "others",
		}
	}
	// The inputs were read for the version that would answer now.
	call.Version, call.Inputs, call.Results = kept.Version, nil, cloned(kept.Results)
	f.result.Version, f.result.Repeated = kept.Version.Number, true
	if f.req.EndOfEpisode {
		f.turn.End()
		p.router.End(f.result.Model, f.req.Episode)
	}
	return checkOutputs(f.req, call)
}

// extend has the outputs that are state run, too.
func (t *turn) extend(call *catalog.Call) {
	t.wanted = len(call.Wanted)
	for _, in := range call.Version.EpisodeState.Inputs {
		if in.Output >= 0 && !slices.Contains(call.Wanted, in.Output) {
			call.Wanted = append(slices.Clip(call.Wanted), in.Output)
		}
	}
}

// commit puts the state of an answered request in the place of the one before, and leaves the call with what is for the
// caller, whose memory is used again.
func (t *turn) commit(req *Request, call *catalog.Call) error {
	outputs := make([]tensor.Tensor, len(call.Version.EpisodeState.Inputs))
	for i, in := range call.Version.EpisodeState.Inputs {
		if in.Output >= 0 {
			at := slices.Index(call.Wanted, in.Output)
			if outputs[i] = call.Results[at]; at < t.wanted {
				outputs[i] = outputs[i].Clone()
			}
		}
	}
	call.Wanted, call.Results = call.Wanted[:t.wanted], call.Results[:t.wanted]
	var kept *episode.Answer
	if req.Step > 0 {
		kept = &episode.Answer{Version: call.Version, Wanted: call.Wanted, Results: cloned(call.Results)}
	}
	return t.Commit(call.Inputs, outputs, kept, req.EndOfEpisode)
}

func cloned(all []tensor.Tensor) []tensor.Tensor {
	own := slices.Clone(all)
	for i := range own {
		own[i] = own[i].Clone()
	}
	return own
}
