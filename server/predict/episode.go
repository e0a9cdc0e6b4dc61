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
func (p *Pipeline) EndStream(stream any) {
	if p.config.Episodes != nil {
		p.config.Episodes.EndStream(stream)
	}
}

// fills reports whether the server may fill input i of a version for a request.
func (r *Request) fills(v *catalog.Version, i int) bool {
	state := v.EpisodeState
	return state != nil && r.Episode != "" &&
		(i == state.Start || slices.ContainsFunc(state.Inputs, func(in catalog.StateInput) bool { return in.Input == i }))
}

// turn is a request's turn in its episode.
type turn struct {
	*episode.Turn
	wanted int // how many of the outputs that are run are for the caller
}

// enterEpisode waits for the request's turn in its episode, where the version keeps the state of episodes, and fills
// the inputs with that. Leave must follow. The turn is nil where there is no state to keep.
func (p *Pipeline) enterEpisode(ctx context.Context, f *flight) (*turn, error) {
	req, call := f.req, &f.call
	v := call.Version
	if v.EpisodeState == nil || req.Episode == "" || p.config.Episodes == nil {
		return nil, nil
	}
	limit := call.Limit
	if limit.IsZero() && v.MaxLatency > 0 {
		limit = time.Now().Add(v.MaxLatency)
	}
	if !limit.IsZero() {
		var cancel context.CancelFunc
		ctx, cancel = context.WithDeadlineCause(ctx, limit, sharedsched.ErrExpired)
		defer cancel()
	}
	if req.After != nil {
		select {
		case <-req.After:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
	ask := &episode.Ask{
		Key:     episode.Key{Identity: req.caller(), Model: v.Model, Episode: req.Episode},
		Version: v, Begin: req.BeginEpisode, Step: req.Step, Rows: 1, Brought: true, Stream: req.StreamID,
	}
	for i, spec := range v.Signature.Inputs {
		if !req.fills(v, i) && spec.BatchDim != tensor.NoBatch {
			ask.Rows = int(call.Inputs[i].Shape[spec.BatchDim])
			break
		}
	}
	for _, in := range v.EpisodeState.Inputs {
		ask.Brought = ask.Brought && call.Inputs[in.Input].DType != tensor.Invalid
	}
	entered, err := p.config.Episodes.Enter(ctx, ask)
	if entered == nil {
		return nil, err
	}
	t := &turn{Turn: entered}
	if t.Kept != nil {
		return t, nil
	}
	f.result.Skipped = t.Skipped
	t.Fill(call.Inputs)
	if call.Wanted == nil { // the state is for the caller, too, where it is from there
		for o := range v.Signature.Outputs {
			if ask.Brought || !isState(v, o) {
				call.Wanted = append(call.Wanted, o)
			}
		}
	}
	return t, nil
}

func isState(v *catalog.Version, output int) bool {
	return slices.ContainsFunc(v.EpisodeState.Inputs, func(in catalog.StateInput) bool { return in.Output == output })
}

// repeat gives a retry the answer that there was. The error is a *tensor.FieldError.
func (t *turn) repeat(f *flight) error {
	kept, call := t.Kept, &f.call
	if call.Wanted != nil && !slices.Equal(call.Wanted, kept.Wanted) {
		return &tensor.FieldError{
			Field: "outputs", Want: "the same as in the first request of this step, whose answer is kept", Got: "others",
		}
	}
	call.Version, call.Wanted, call.Results = kept.Version, kept.Wanted, cloned(kept.Results)
	f.result.Version, f.result.Repeated = kept.Version.Number, true
	return nil
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
// caller.
func (t *turn) commit(req *Request, call *catalog.Call) error {
	outputs := make([]tensor.Tensor, len(call.Version.EpisodeState.Inputs))
	for i, in := range call.Version.EpisodeState.Inputs {
		if in.Output < 0 {
			continue
		}
		at := slices.Index(call.Wanted, in.Output)
		if outputs[i] = call.Results[at]; at < t.wanted { // the memory of what is for the caller is used again
			outputs[i] = outputs[i].Clone()
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
