package predict

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/weftserve/weft/runtime/catalog"
	"github.com/weftserve/weft/server/rollout"
	"github.com/weftserve/weft/sharedsched"
)

// Observer is notified of each request that reaches the server: of one on a stream when it was read. Calls come from
// any goroutine and must not block.
type Observer interface {
	// RequestOffered comes first. The model is the one asked for, "" if there is none of that name or the request
	// cannot be read.
	RequestOffered(model string, stream bool)
	// RequestDone follows, answered or not, with the same Model and Stream. The context is the request's.
	// The event must not be kept.
	RequestDone(context.Context, *Event)
}

// Event says how one request ended.
type Event struct {
	// Number counts the requests of the server from 1. ID is the caller's own name for it, "" for none: it must not
	// become a label.
	Number uint64
	ID     string
	// Identity is who it was charged to; "": nobody is known.
	Identity string
	// Model is the one asked for, empty if there was none of that name when the request came: names that came with
	// requests are not repeated. Version and Slot are zero when the request could not be routed.
	Model   string
	Version int64
	Slot    string
	// Arrived is when it came, as Request has it, and Ended when its answer was there. Limit and Target say what was in
	// force; zero: none.
	Arrived, Ended time.Time
	Limit          time.Time
	Target         time.Duration
	// TraceID names its trace, in hexadecimal digits; "": it has none that is kept.
	TraceID string
	// Code is that of Explanation, OK if the request was answered; Ending is its kind, and Reason that of Explanation.
	Code   string
	Ending Ending
	Reason string
	// Message is its Text, of a request that was not answered.
	Message string
	// Lacked: it was not answered for lack of capacity, see [Lacked].
	Lacked bool
	// Duration is from the decoded request to its answer, before encoding for the wire.
	Duration time.Duration
	Stream   bool
	// Degraded and FailedOverFrom are those of Place.
	Degraded       bool
	FailedOverFrom int64
	Execution      Execution
	Step           Step
}

// Step says how the request was a step of an episode; it is zero if it was none.
type Step struct {
	Episode string // as its caller calls it
	Number  uint64 // 0: it has none
	// Waited is how long it waited for its turn, where the server keeps the state. Repeated and Skipped are as in Result.
	Waited   time.Duration
	Repeated bool
	Skipped  uint64
}

// Execution says how a request was executed; it is zero if it was not.
type Execution struct {
	Rows    int
	Outcome sharedsched.Outcome
	Phases  catalog.Phases
}

// Ending is what became of a request: offered requests are the sum of these and those in flight.
type Ending uint8

// The endings.
const (
	Answered Ending = iota + 1
	// Refused: there was no room, the caller may not, or the request was wrong.
	Refused
	// Expired: its limit passed.
	Expired
	// Cancelled: its caller left, or sent a newer one in its place.
	Cancelled
	// Failed: the model or the server did.
	Failed
)

// String returns answered, refused, expired, cancelled or failed.
func (e Ending) String() string {
	return [...]string{"none", "answered", "refused", "expired", "cancelled", "failed"}[e]
}

// canceled is the code of requests whose callers left.
const canceled = "Canceled"

// AboutNow is how long before its deadline a caller may give a request up because of it: its clock began before ours. A
// caller that gives up earlier has another reason, which says nothing of capacity.
const AboutNow = 5 * time.Millisecond

// Lacked reports whether a request with this error was not answered for lack of capacity: the scheduler refused it or
// gave it up, the server is full, or its time was over.
func Lacked(err error) bool {
	_, refused := errors.AsType[*sharedsched.Refusal](err)
	_, full := errors.AsType[*ServerFullError](err)
	return refused || full || errors.Is(err, sharedsched.ErrExpired) || errors.Is(err, context.DeadlineExceeded)
}

// EndingOf returns the ending of requests with a code of Explanation, which is the name of a code of gRPC. Codes that
// are not named here say that the server or its caller refused the request.
func EndingOf(code string) Ending {
	switch code {
	case "OK":
		return Answered
	case "DeadlineExceeded":
		return Expired
	case canceled, "Aborted":
		return Cancelled
	case "Internal", "Unavailable", "Unknown", "DataLoss":
		return Failed
	}
	return Refused
}

// Rollouts compares versions by how they did.
type Rollouts interface {
	// Observe is called for each request that came to a version.
	Observe(model string, version int64, e rollout.Ending)
	// Begun is called for each episode whose first request the split led to a version, and for each that left its version
	// for another one.
	Begun(model string, version int64, b rollout.Beginning)
}

// answered explains the lack of an error.
var answered = Explanation{Code: "OK"}

// explain puts an error into the terms of the API, by the table that the server was made with.
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
	f.observed.step.Repeated, f.observed.step.Skipped = f.result.Repeated, f.result.Skipped
	p.done(ctx, &f.observed, f.req, &f.result.Place, &e, &f.call)
}

// compare reports to a rollout how a request to a version ended. A request counts as the model's fault, as spared (it
// says nothing of the version), or by its code. Lateness is not told: rollouts judge the compute time.
func (p *Pipeline) compare(f *flight, e *Explanation, err error) {
	// Nobody waits for a superseded request any more, and the one after it counts.
	if p.config.Rollouts == nil || f.result.Version == 0 || errors.Is(err, ErrSuperseded) {
		return
	}
	ending := rollout.Ending{
		Code: e.Code, Episode: f.req.Episode, Drawn: f.drawn, Routed: f.routed, Fault: isFault(err) && !f.excused,
	}
	ending.Spared = !ending.Fault &&
		(f.excused || e.Overload || EndingOf(e.Code) == Cancelled || EndingOf(e.Code) == Expired)
	if err == nil {
		ending.Compute = p.computed(&f.call)
	}
	p.config.Rollouts.Observe(f.result.Model, f.result.Version, ending)
}

// observed is a request that reached the server, on its way to its end.
type observed struct {
	number  uint64
	model   string // "" if there was none of the name that came
	stream  bool
	decoded time.Time
	step    Step // all but its names
	// As in Course; zero where the request is not traced.
	submitted, returned, encoding time.Time
}

// offered notifies the observer of a request.
func (p *Pipeline) offered(model string, stream bool) observed {
	o := observed{number: p.serial.Add(1), stream: stream, decoded: time.Now()}
	if m := p.models.Snapshot().Model(model); m != nil {
		o.model = m.Name
	}
	if p.config.Observer != nil {
		p.config.Observer.RequestOffered(o.model, stream)
	}
	return o
}

// events are used again: observers keep none.
var events = sync.Pool{New: func() any { return new(Event) }}

// done reports to the observer how a request ended. at may be of a model that was added after the request came; then
// the event has no version and no slot.
func (p *Pipeline) done(ctx context.Context, o *observed, req *Request, at *Place, why *Explanation,
	call *catalog.Call,
) {
	if p.config.Observer == nil && p.config.Statistics == nil {
		return
	}
	now := time.Now()
	e := events.Get().(*Event)
	defer events.Put(e)
	*e = Event{
		Number: o.number, ID: req.ID, Identity: req.caller(), Model: o.model, Stream: o.stream,
		Arrived: req.Arrived, Ended: now, Limit: call.Limit, Target: call.Target,
		Code: why.Code, Ending: EndingOf(why.Code), Reason: why.Reason, Message: why.Text,
		Lacked:   why.Lacked || why.Code == canceled && !call.Limit.IsZero() && call.Limit.Sub(now) < AboutNow,
		Duration: now.Sub(o.decoded),
		Degraded: at.Degraded, FailedOverFrom: at.FailedOverFrom,
		Execution: Execution{Rows: call.Rows, Outcome: call.Outcome, Phases: call.Phases}, Step: o.step,
	}
	e.Step.Episode, e.Step.Number = req.Episode, req.Step
	if e.Arrived.IsZero() {
		e.Arrived = o.decoded
	}
	if v := call.Version; v != nil && e.Target == 0 {
		e.Target = v.TargetLatency
	}
	if at.Model == o.model {
		e.Version, e.Slot = at.Version, at.Slot
	}
	if req.trace != nil {
		e.TraceID = req.trace.ID()
		o.trace(req, e, why)
	}
	if p.config.Statistics != nil {
		p.config.Statistics.count(e)
	}
	if p.config.Observer != nil {
		p.config.Observer.RequestDone(ctx, e)
	}
}

// trace tells the trace of a request how that ended.
func (o *observed) trace(req *Request, e *Event, why *Explanation) {
	req.trace.Done(&Course{
		Event: e, Request: req, Why: why.Text,
		Decoded: o.decoded, Submitted: o.submitted, Returned: o.returned, Encoding: o.encoding,
	})
}

// Throttled counts a request that was refused before it was read: there is no time to explain each error.
func (p *Pipeline) Throttled(model string, why Explanation) {
	o := p.offered(model, false)
	p.done(context.Background(), &o, &Request{}, &Place{}, &why, &catalog.Call{})
}

// Refuse counts a request that its handler refused before there was anything to predict, such as a message that could
// not be read: then its Model is "". Leave must follow as after Predict.
func (p *Pipeline) Refuse(ctx context.Context, req *Request, err error) {
	ctx = p.follow(ctx, req)
	o := p.offered(req.Model, req.Stream)
	e := p.explain(err)
	p.done(ctx, &o, req, &Place{}, &e, &catalog.Call{})
}
