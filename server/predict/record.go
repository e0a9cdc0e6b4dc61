package predict

import (
	"iter"
	"slices"
	"time"

	"github.com/weftserve/weft/runtime/catalog"
	"github.com/weftserve/weft/runtime/tensor"
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
	// Offer never blocks and never fails: a request for which there is no room is dropped and counted.
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
	o := shadow.Offer{
		Primary: &f.call, Slot: route.Slot, RequestID: f.req.ID, Episode: f.req.Episode, Named: m.Traffic.Shadow,
	}
	if f.req.trace != nil {
		o.Follow = f.req.trace.Follow()
	}
	for _, target := range route.Shadows {
		if v := m.Version(target.Version); v != nil && v.State == catalog.Ready && !f.lacksState(v) {
			o.Shadows = append(o.Shadows, shadow.Target{Version: v, Shadow: target})
		}
	}
	p.config.Shadows.Offer(o)
}

// lacksState reports whether an answered request cannot be shown to a version: it keeps the state of episodes, has none
// of this one, and the request did not bring it. The state of the version that answered means nothing to it.
func (f *flight) lacksState(v *catalog.Version) bool {
	if v.EpisodeState == nil || f.req.Episode == "" {
		return false
	}
	return f.turn != nil || slices.ContainsFunc(v.EpisodeState.Inputs, func(in catalog.StateInput) bool {
		return f.call.Version.Signature.Input(v.Signature.Inputs[in.Input].Name) < 0
	})
}
