package predict

import (
	"cmp"
	"context"
	"errors"
	"iter"
	"slices"
	"time"

	"github.com/weftserve/weft/runtime/catalog"
	"github.com/weftserve/weft/runtime/tensor"
	"github.com/weftserve/weft/server/episode"
	"github.com/weftserve/weft/server/routing"
	"github.com/weftserve/weft/server/shadow"
)

// Recorder keeps requests and answers.
type Recorder interface {
	// Keep never blocks: a request for which there is no room is dropped and counted. It must not change its argument,
	// and copies what it keeps of it: all of it is used again for other requests.
	Keep(*Recorded)
}

// Recorded is a request that the Gate let in, and its result.
type Recorded struct {
	// At is when the request came.
	At      time.Time
	Request *Request
	// Limit is the time that the caller gave, less the time reserved for the answer's way; 0 for none.
	Limit time.Duration
	Place Place
	// Code is that of Explanation, OK for a request that was answered. Else Message says why it was not.
	Code, Message string
	// Result is nil if the request was not answered.
	Result *Result
	// Episode numbers the episode whose state the server keeps, on all servers, and Steps says how many of its steps were
	// answered since it began, with this one; 0: it is a retry. Both are 0 for a request that left no state.
	Episode, Steps int64

	flight *flight
}

// Inputs returns the inputs that came and were read, each with its entry in the version's signature.
func (r *Recorded) Inputs() iter.Seq2[*tensor.Spec, tensor.Tensor] {
	return func(yield func(*tensor.Spec, tensor.Tensor) bool) {
		for i, t := range r.flight.inputs {
			if spec, _ := r.flight.read.Signature.Takes(i); t.DType != tensor.Invalid && !yield(spec, t) {
				return
			}
		}
	}
}

// record hands a request to the recorder.
func (p *Pipeline) record(f *flight, code string, err error) {
	if p.config.Recorder == nil || !f.req.admitted {
		return
	}
	r := &Recorded{At: f.observed.decoded, Request: f.req, Place: f.result.Place, Code: code, flight: f}
	if !f.req.Limit.IsZero() {
		r.Limit = max(time.Microsecond, f.req.Limit.Sub(r.At))
	}
	if err != nil {
		r.Message = Clip(err.Error())
	} else {
		r.Result = &f.result
	}
	if f.turn != nil {
		r.Episode, r.Steps = f.turn.At()
	}
	p.config.Recorder.Keep(r)
}

// Shadows runs requests once more on other versions, in spare time.
type Shadows interface {
	// Offer never blocks and never fails: a request for which there is no room is dropped and counted. Each Target.Step
	// leaves in the end.
	Offer(shadow.Offer)
}

// mirror offers an answered request to the versions in the shadow of the one that answered it.
func (p *Pipeline) mirror(f *flight, route *routing.Route) {
	if p.config.Shadows == nil {
		return
	}
	m := p.models.Snapshot().Model(f.result.Model)
	if m == nil || m.Traffic == nil || len(m.Traffic.Shadow) == 0 {
		return
	}
	primary := &f.call
	if f.call.Version.EpisodeState != nil && f.req.Episode != "" {
		came := f.call // what the server filled in means nothing to another version
		came.Inputs, primary = f.inputs, &came
	}
	o := shadow.Offer{
		Primary: primary, Slot: route.Slot, RequestID: f.req.ID, Episode: f.req.Episode, Named: m.Traffic.Shadow,
	}
	if f.req.trace != nil {
		o.Follow = f.req.trace.Follow()
	}
	for _, target := range route.Shadows {
		v := m.Version(target.Version)
		if v == nil || v.State != catalog.Ready {
			continue
		}
		if step, ok := p.shadowStep(f, primary, v); ok {
			o.Shadows = append(o.Shadows, shadow.Target{Version: v, Shadow: target, Step: step})
		}
	}
	p.config.Shadows.Offer(o)
}

// shadowStep returns the step that a version in the shadow is to do; nil: it keeps nothing of the request. Not ok: it
// has not done all steps before.
func (p *Pipeline) shadowStep(f *flight, primary *catalog.Call, v *catalog.Version) (step shadow.Step, ok bool) {
	if v.EpisodeState == nil || f.req.Episode == "" {
		return nil, true
	}
	var mark episode.Mark
	switch {
	case f.turn != nil:
		mark = f.turn.Mark()
	case bringsState(primary, v): // in an episode that is not there, or to a version that keeps nothing
		return nil, true
	case primary.Version.EpisodeState == nil:
		mark = episode.Numbered(f.req.Step, f.req.BeginEpisode, f.req.EndOfEpisode)
	}
	s := p.config.Episodes.Shadow(f.req.episodeOf(v), v, mark)
	return &shadowStep{ShadowStep: s}, s != nil
}

// bringsState reports whether a call of another version brings all inputs that a version keeps.
func bringsState(call *catalog.Call, v *catalog.Version) bool {
	return !slices.ContainsFunc(v.EpisodeState.Inputs, func(in catalog.StateInput) bool {
		at := call.Version.Signature.Input(v.Signature.Inputs[in.Input].Name)
		return at < 0 || call.Inputs[at].DType == tensor.Invalid ||
			in.Newest(&v.Signature.Inputs[in.Input], &call.Inputs[at])
	})
}

// shadowStep is a shadow.Step.
type shadowStep struct {
	*episode.ShadowStep
	wanted int // outputs that are compared
}

// Enter implements shadow.Step.
func (s *shadowStep) Enter(ctx context.Context, call *catalog.Call) error {
	rows, newest, err := brought(new(Request), call)
	if err != nil {
		return err
	}
	err = s.ShadowStep.Enter(ctx, call.Inputs, rows, newest)
	if _, lost := errors.AsType[*episode.LostError](err); lost {
		return shadow.ErrMissed
	}
	s.wanted = wantState(call)
	return err
}

// Commit implements shadow.Step.
func (s *shadowStep) Commit(call *catalog.Call) error {
	if err := cmp.Or(checkResults(call), checkState(call)); err != nil {
		return err
	}
	s.ShadowStep.Commit(call.Inputs, takeState(call, s.wanted))
	s.Leave()
	return nil
}
