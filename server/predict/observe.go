package predict

import (
	"context"
	"errors"
	"time"

	"github.com/weftserve/weft/runtime/catalog"
	"github.com/weftserve/weft/server/rollout"
)

// Observer is notified of each request that reaches the server: of one on a stream when it was read. Calls come from
// any goroutine and must not block.
type Observer interface {
	// RequestOffered comes first. The model is the one asked for, "" if there is none of that name or the request
	// cannot be read.
	RequestOffered(model string, stream bool)
	// RequestDone follows, answered or not, with the same Model and Stream.
	RequestDone(Event)
}

// Event says how one request ended.
type Event struct {
	// Model is the one asked for, empty if there was none of that name when the request came: names that came with
	// requests are not repeated. Version and Slot are zero when the request could not be routed.
	Model   string
	Version int64
	Slot    string
	// Code is that of Explanation, OK if the request was answered.
	Code string
	// Duration is from the decoded request to its answer, before encoding for the wire.
	Duration time.Duration
	Stream   bool
	// Degraded and FailedOverFrom are those of Place.
	Degraded       bool
	FailedOverFrom int64
	Execution      Execution
}

// Execution says how a request was executed; it is zero if it was not.
type Execution struct {
	Rows   int
	Queue  time.Duration
	Phases catalog.Phases
}

// Rollouts compares versions by how they did.
type Rollouts interface {
	// Observe is called for each request that came to a version.
	Observe(model string, version int64, e rollout.Ending)
	// Begun is called for each episode whose first request came to a version, with the moment when it did.
	Begun(model string, version int64, at time.Time)
}

// answered explains the lack of an error.
var answered = Explanation{Code: "OK"}

func (p *Pipeline) explain(err error) Explanation {
	if err == nil {
		return answered
	}
	return p.config.Explain(err)
}

// ended reports how a request ended to the log, the rollouts, the recorder and the observer.
func (p *Pipeline) ended(ctx context.Context, f *flight, err error) {
	e := p.explain(err)
	p.withheld.tell(ctx, f, &e, err)
	p.compare(f, &e, err)
	p.record(f, e.Code, err)
	p.done(&f.observed, &f.result.Place, e.Code, &f.call)
}

// compare reports to a rollout how a request to a version ended.
func (p *Pipeline) compare(f *flight, e *Explanation, err error) {
	// Nobody waits for a superseded request any more, and the one after it counts.
	if p.config.Rollouts == nil || f.result.Version == 0 || errors.Is(err, ErrSuperseded) {
		return
	}
	ending := rollout.Ending{Code: e.Code, Fault: isFault(err), Overload: e.Overload}
	if err == nil {
		ending.Compute = f.call.Outcome.Compute
	}
	p.config.Rollouts.Observe(f.result.Model, f.result.Version, ending)
}

// observed is a request that reached the server, on its way to its end.
type observed struct {
	model   string // "" if there was none of the name that came
	stream  bool
	arrival time.Time
}

// offered notifies the observer of a request.
func (p *Pipeline) offered(model string, stream bool) observed {
	o := observed{stream: stream, arrival: time.Now()}
	if p.config.Observer == nil {
		return o
	}
	if m := p.models.Snapshot().Model(model); m != nil {
		o.model = m.Name
	}
	p.config.Observer.RequestOffered(o.model, stream)
	return o
}

// done reports to the observer how a request ended. at may be of a model that was added after the request came; then
// the event has no version and no slot.
func (p *Pipeline) done(o *observed, at *Place, code string, call *catalog.Call) {
	if p.config.Observer == nil {
		return
	}
	e := Event{
		Model: o.model, Code: code, Duration: time.Since(o.arrival), Stream: o.stream,
		Degraded: at.Degraded, FailedOverFrom: at.FailedOverFrom,
		Execution: Execution{Rows: call.Rows, Queue: call.Outcome.Queue, Phases: call.Phases},
	}
	if at.Model == o.model {
		e.Version, e.Slot = at.Version, at.Slot
	}
	p.config.Observer.RequestDone(e)
}

// Throttled counts a request that was refused, with a code, before it was read: there is no time to explain each error.
func (p *Pipeline) Throttled(model, code string) {
	o := p.offered(model, false)
	p.done(&o, &Place{}, code, &catalog.Call{})
}

// Refuse counts a request that its handler refused before there was anything to predict, such as a message that could
// not be read: then the model is "".
func (p *Pipeline) Refuse(model string, stream bool, err error) {
	o := p.offered(model, stream)
	p.done(&o, &Place{}, p.explain(err).Code, &catalog.Call{})
}
