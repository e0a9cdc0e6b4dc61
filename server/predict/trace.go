package predict

import (
	"context"
	"time"
)

// Traces follow requests from their arrival until their answers were sent.
type Traces interface {
	// Begin returns the context of a request that came to the pipeline, by which what is logged and measured names its
	// trace, and the trace; nil: the request is not sampled.
	Begin(ctx context.Context, r *Request) (context.Context, Trace)
}

// Trace follows one request.
type Trace interface {
	// ID is its name, in hexadecimal digits.
	ID() string
	// Follow returns what makes contexts of work that follows from the request, for which nobody waits.
	Follow() func(context.Context) context.Context
	// Done says how the request ended, once and before Sent.
	Done(*Course)
	// Sent notes that its answer was handed over to be sent, or that there is none.
	Sent()
}

// Course says how a request that is traced went.
type Course struct {
	Event   *Event
	Request *Request
	// Why explains an error as its caller may read it.
	Why string
	// Decoded is when the pipeline got it, Submitted and Returned are when the models got its call and when they gave it
	// back, and Encoding is since when its answer was written; zero: it did not come so far.
	Decoded, Submitted, Returned, Encoding time.Time
}

// follow begins the trace of a request, and returns its context. A request that is not sampled keeps its context, and a
// nil trace.
func (p *Pipeline) follow(ctx context.Context, req *Request) context.Context {
	if p.config.Traces == nil {
		return ctx
	}
	ctx, req.trace = p.config.Traces.Begin(ctx, req)
	return ctx
}

// moment is the present for a request that is traced. For others the clock is not read.
func (r *Request) moment() time.Time {
	if r.trace == nil {
		return time.Time{}
	}
	return time.Now()
}
