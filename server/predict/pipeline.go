// Package predict takes a request for a prediction from its message to its answer, for every protocol: it knows none.
//
// A protocol is a codec of its own: a handler makes a [Request] of each message and calls [Pipeline.Predict], which
// calls the handler's [Codec] back twice. The inputs can be read only when the version is known whose signature says
// what they must be, and the answer must be written while the request can still fail. In between the pipeline goes
// through these steps:
//
//	gate     is there room under the limit of concurrent requests (Gate), and does the server not drain
//	route    which version answers, and which are in its shadow
//	decode   the inputs and the wanted outputs, checked against the version's signature
//	run      the models execute the call
//	judge    the breaker hears how the version did
//	mirror   the versions in the shadow are offered the request
//	encode   the codec writes the answer
//
// However a request ends, by an answer, an error or a panic, in this order: the log gets the parts of an error that its
// caller does not get, a rollout and the recorder are notified of the request, and the observer counts it.
package predict

import (
	"cmp"
	"context"
	"errors"
	"hash/maphash"
	"log/slog"
	"math/rand/v2"
	"runtime/debug"
	"sync/atomic"
	"time"

	"github.com/weftserve/weft/internal/owntime"
	"github.com/weftserve/weft/runtime/catalog"
	"github.com/weftserve/weft/runtime/tensor"
	"github.com/weftserve/weft/server/breaker"
	"github.com/weftserve/weft/server/episode"
	"github.com/weftserve/weft/server/rollout"
	"github.com/weftserve/weft/server/routing"
)

// ErrSuperseded is the cause with which a request is cancelled when a newer one of its stream takes over.
var ErrSuperseded = errors.New("a newer request of this stream and episode took over")

// Models knows the models and runs them.
type Models interface {
	// Snapshot returns every known model. The result is immutable; a change replaces it and raises its Revision.
	Snapshot() *catalog.Snapshot
	// Predict runs the call and fills its Results and Outcome. It blocks until nothing reads call.Inputs any more. When
	// ctx ends, a call that is still queued fails at once with context.Cause(ctx); Predict waits for one that is
	// already running. Safe for concurrent use.
	Predict(ctx context.Context, call *catalog.Call) error
}

// Config holds the parts and limits of a Pipeline. All of it is fixed for its life.
type Config struct {
	// MaxConcurrentRequests is how many requests may be inside at once, of all protocols. Zero: no bound but the
	// queues'.
	MaxConcurrentRequests int
	// MaxEpisodes and EpisodeTTL bound the memory of running episodes, see routing.Config. Zero: its defaults.
	MaxEpisodes int
	EpisodeTTL  time.Duration
	// Memory is where results may lie. A codec that is the last to use them may put them back. Nil: the garbage
	// collector's.
	Memory tensor.Memory
	// Explain is the error table of the API, in whose terms metrics, recordings and rollouts speak of every protocol's
	// requests.
	Explain func(error) Explanation
	// Clock is that of this process and its workers, in whose time it is judged how long models take. Nil: the system's.
	Clock *owntime.Clock
	// Logger gets panics, changes of breakers, and the errors whose full text callers do not get.
	Logger *slog.Logger
	// Episodes keeps the state of episodes. Nil: there is no room for any.
	Episodes *episode.Store
	// Each of these may be nil.
	Statistics *Statistics
	Observer   Observer
	Shadows    Shadows
	Rollouts   Rollouts
	Recorder   Recorder
	Traces     Traces
}

// Explanation is an error in the terms of the API.
type Explanation struct {
	// Code is the name of the gRPC code that the error comes to, such as ResourceExhausted.
	Code string
	// Overload: there was not the capacity to answer, or to answer in time.
	Overload bool
	// Lacked is that of [Lacked], true also where the request was refused unread.
	Lacked bool
	// Text is the error as the caller may read it, and Reason the constant that clients tell it by, such as QUEUE_FULL.
	Text, Reason string
}

// Pipeline takes requests all the way. It is safe for concurrent use.
type Pipeline struct {
	config   Config
	models   Models
	gate     *Gate
	router   *routing.Router
	breaker  *breaker.Breaker
	serial   atomic.Uint64 // of requests
	withheld withheld
	seed     maphash.Seed
	salt     uint64 // of the numbers of requests
}

// New returns a pipeline to the models.
func New(c Config, models Models) *Pipeline {
	c.Episodes = cmp.Or(c.Episodes, episode.NewStore(episode.Config{}))
	fit := breaker.New(func(b breaker.State) { logBreaker(c.Logger, &b) })
	return &Pipeline{
		config:   c,
		models:   models,
		gate:     newGate(c.MaxConcurrentRequests),
		router:   routing.NewRouter(routing.Config{MaxEpisodes: c.MaxEpisodes, EpisodeTTL: c.EpisodeTTL, Health: fit}),
		breaker:  fit,
		withheld: withheld{log: c.Logger},
		seed:     maphash.MakeSeed(),
		salt:     rand.Uint64(),
	}
}

// Gate counts the requests and refuses new ones when the server drains.
func (p *Pipeline) Gate() *Gate { return p.gate }

// Router remembers the versions of running episodes.
func (p *Pipeline) Router() *routing.Router { return p.router }

// Breakers returns the circuit breakers of all versions with recent requests.
func (p *Pipeline) Breakers() []breaker.State { return p.breaker.States() }

// Snapshot returns every known model.
func (p *Pipeline) Snapshot() *catalog.Snapshot { return p.models.Snapshot() }

// Table returns the routing table of this moment.
func (p *Pipeline) Table() *routing.Table { return p.router.Table(p.models.Snapshot()) }

// Predict takes one request all the way: it is answered when its codec has encoded the answer and the error is nil.
// Place says, as far as it is known, which version an answer or an error is of. Leave must follow when the answer was
// sent, or there is nothing to send.
func (p *Pipeline) Predict(ctx context.Context, req *Request) (at Place, err error) {
	ctx = p.follow(ctx, req)
	f := &flight{req: req, observed: p.offered(req.Model, req.Stream)}
	defer func() {
		if caught := Recovered(ctx, p.config.Logger, "Predict", recover()); caught != nil {
			err = caught
		}
		at = f.result.Place
		p.ended(ctx, f, err) // before the next step of the episode: recordings have them in their order
		f.leaveEpisode(p.config.Memory, err)
	}()
	if err := p.gate.enterRequest(); err != nil {
		return at, err
	}
	req.admitted = true
	if err := req.check(); err != nil {
		return at, err
	}
	for tries := 0; ; tries++ {
		err = p.try(ctx, f)
		if err != nil {
			f.leaveEpisode(p.config.Memory, err)
		}
		if f.stays(err, p.models.Snapshot()) {
			continue
		}
		if !errors.Is(err, catalog.ErrNotReady) || tries == maxReroutes {
			break
		}
	}
	if err != nil {
		return at, err
	}
	f.observed.encoding = req.moment()
	if err := req.Codec.Encode(&f.result); err != nil {
		return at, err
	}
	if req.EndOfEpisode {
		p.router.End(f.result.Model, req.Episode)
	}
	return at, nil
}

// Leave notes that nothing of a request is left to be sent: the request is in the server until then, unless the Gate
// refused it, and traced until then. It must be called once.
func (p *Pipeline) Leave(req *Request) {
	if req.trace != nil {
		req.trace.Sent()
	}
	if req.admitted {
		p.gate.leaveRequest()
	}
}

// flight is a request on its way. It is owned by the goroutine of Predict. Its call and result are those of the latest
// try.
type flight struct {
	req      *Request
	observed observed
	call     catalog.Call
	// inputs are the ones that came, as they were read for a version. The call has also what the server keeps.
	inputs []tensor.Tensor
	read   *catalog.Version
	keeper int64 // the version that has the state of the episode, where another one was chosen, or elsewhere; 0: none
	// result has its Place as soon as the request is routed, and drawn is the route's.
	result Result
	drawn  bool
	routed time.Time
	turn   *episode.Turn // nil: there is no state to keep, or it has given it up
	shown  int           // how many of the outputs that are run are for the caller, where there is a turn
	// excused: that the request failed says nothing of the version. proven: another version answers it.
	excused, proven bool
}

// try takes a request from its routing to its results. An error that wraps catalog.ErrNotReady may be tried again. The
// breaker hears of each try that came to a version's model; a version is not judged by a request that it cannot read.
func (p *Pipeline) try(ctx context.Context, f *flight) error {
	f.result, f.excused, f.proven = Result{call: &f.call}, false, false
	route, err := p.route(f)
	if err != nil {
		return err
	}
	refused := func(err error) error {
		// Another version that takes the same inputs would refuse it as well.
		f.excused = p.Table().Alternative(route.Version, p.breaker) != nil
		return err
	}
	err = decode(f.req, route.Version, &f.call)
	f.read, f.inputs = route.Version, f.call.Inputs
	if err != nil {
		return refused(err)
	}
	if err := p.enterEpisode(ctx, f); err != nil {
		f.excused = episode.Refused(err)
		return err
	}
	if f.turn != nil && f.turn.Kept != nil {
		return p.repeatStep(f)
	}
	if err := complete(f.req, &f.call); err != nil {
		return refused(err)
	}
	if f.turn != nil {
		f.shown = wantState(&f.call)
	}
	f.call.Memory, f.call.Traced = p.config.Memory, f.req.trace != nil
	if err := context.Cause(ctx); err != nil {
		return err
	}
	f.observed.submitted = f.req.moment()
	if err = p.models.Predict(ctx, &f.call); err == nil {
		err = checkResults(&f.call)
	} else {
		err = p.tryElsewhere(ctx, f, err)
	}
	if err == nil && f.turn != nil {
		if err = checkState(&f.call); err == nil {
			err = f.commit()
		}
	}
	f.observed.returned = f.req.moment()
	if p.judge(f, err); err != nil {
		return err
	}
	p.mirror(f, &route)
	return nil
}

// maxReroutes is how often a request is routed again because its version stopped being ready between routing and
// submission, as happens once when a new version takes over. What else is tried again, and in which order, is in the
// table of package serving (attempt.go).
const maxReroutes = 2

// route chooses the version that answers a request, and says so in the result.
func (p *Pipeline) route(f *flight) (routing.Route, error) {
	choice := f.req.Choice
	if f.keeper > 0 {
		choice = routing.Choice{Version: &f.keeper}
	}
	route, err := p.router.Route(p.models.Snapshot(), routing.Request{
		Model: f.req.Model, Choice: choice, Episode: f.req.Episode, RequestID: f.req.ID,
		Serial: p.salt + f.observed.number, // not that of a request before a restart
	})
	f.routed = time.Now()
	if err != nil {
		return route, err
	}
	v := route.Version
	f.result.Place = Place{
		Model: v.Model, Version: v.Number, Slot: route.Slot, Table: route.Table, Degraded: route.Degraded,
		FailedOverFrom: route.FailedOverFrom,
	}
	f.drawn = route.Drawn
	if p.config.Rollouts != nil && !route.Began.IsZero() && (route.Drawn || route.Left != 0) {
		p.config.Rollouts.Begun(v.Model, v.Number, rollout.Beginning{
			Episode: f.req.Episode, By: f.req.caller(), Draw: route.Draw, Table: route.Table, At: route.Began,
			Left: route.Left,
		})
	}
	return route, nil
}

// ErrPanic is all that a caller learns of a panic; the log has the rest.
var ErrPanic = errors.New("internal error: the server failed while it handled this request; its log has the details")

// Recovered takes what recover returned in the handler of a call. If there was a panic it is logged, with its stack,
// and the error with which the call ends is ErrPanic, because the caller must not see the server's internals. Else the
// error is nil.
func Recovered(ctx context.Context, log *slog.Logger, method string, p any) error {
	if p == nil {
		return nil
	}
	log.ErrorContext(ctx, "panic in a request handler", "event", "request_panicked", "method", method, "panic", p,
		"stack", string(debug.Stack()))
	return ErrPanic
}
