// Package transport takes calls of gRPC, for every service alike: limits, keepalive, messages that are read here so
// that a broken one gets an error of ours, and panics that end one call only. It takes requests for predictions through
// the pipeline, whatever protocol they are of: those of unary calls, and those of streams on which each message is one.
package transport

import (
	"context"
	"errors"
	"log/slog"
	"net/http"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"

	"github.com/weftserve/weft/runtime/tensor"
	"github.com/weftserve/weft/server/access"
	"github.com/weftserve/weft/server/predict"
	"github.com/weftserve/weft/server/protect"
	"github.com/weftserve/weft/server/routing"
	"github.com/weftserve/weft/server/status"
)

// Calls takes the calls of services, of any protocol, through the pipeline. It must not be changed once one of them is
// used.
type Calls struct {
	Pipeline *predict.Pipeline
	// Control decides on each call, and on each message of a stream.
	Control *access.Control
	// MaxInFlightPerStream is how many requests of one stream may be unanswered before the server stops reading it.
	MaxInFlightPerStream int
	// MaxMessageBytes is the largest message in bytes, whether it came in a stream, with its framing, was decompressed, or
	// is an answer.
	MaxMessageBytes int
	// Memory is where messages lie until they were read, and answers until they were sent.
	Memory tensor.Memory
	// Trailer returns what an answer to a request for a prediction has in its trailer, or a refusal, unless the one before
	// it on the same connection had that. Nil: nothing.
	Trailer func() *metadata.MD
	// Throttle learns how requests ended.
	Throttle *protect.Throttle
	// Logger gets changes and panics.
	Logger *slog.Logger
	// Codes returns the error of a call as the protocol has it; nil: as it is.
	Codes func(error) error
	// Ended is called with the context of each call whose handler has ended, and its error. Nil: nobody wants to know.
	Ended func(ctx context.Context, err error)
}

// On returns the registrar that services are to be registered with in the place of g, which must have been made with
// Options.
func (c *Calls) On(g *grpc.Server) Registrar { return Registrar{g, c} }

// Fail returns the error with which a call ends, as its caller may see it and as the protocol has it.
func (c *Calls) Fail(ctx context.Context, err error, at predict.Place) error {
	return c.fail(ctx, c.Narrow(access.CallerOf(ctx), err), at)
}

// fail is Fail for an error that its caller may see.
func (c *Calls) fail(ctx context.Context, err error, at predict.Place) error {
	err = status.Fail(ctx, err, at)
	if c.Codes != nil {
		err = c.Codes(err)
	}
	return err
}

// RefusesPage notes that the answer which is to be written is this error.
func (*Calls) RefusesPage(w http.ResponseWriter, err error) { protect.Refuses(w, status.OfCaller(err)) }

// Narrow returns an error as its caller may see it: one that lists models lists the models that the caller may know of,
// and a model that the caller may not know of does not exist.
func (c *Calls) Narrow(by *access.Caller, err error) error {
	if by.SeesAll() {
		return err
	}
	if hidden, is := errors.AsType[*access.HiddenError](err); is {
		return c.Pipeline.Table().Absent(hidden.Model, by.Sees)
	}
	if absent, is := errors.AsType[*routing.NotFoundError](err); is && absent.Kind == routing.KindModel {
		return c.Pipeline.Table().Absent(absent.Name, by.Sees)
	}
	return err
}

// CheckSize refuses an answer that gRPC would refuse to send, which on a stream would end it for every request.
func (c *Calls) CheckSize(bytes int) error {
	return c.checkSize(bytes, "ask for fewer outputs or rows")
}

// checkSize is CheckSize with what the caller can do.
func (c *Calls) checkSize(bytes int, remedy string) error {
	if limit := c.MaxMessageBytes; bytes > limit {
		return &status.AnswerTooLargeError{Bytes: bytes, Limit: limit, Remedy: remedy}
	}
	return nil
}

// refuse counts a request that never came to the pipeline. Its model is not known.
func (c *Calls) refuse(ctx context.Context, err error, stream bool) {
	r := &predict.Request{Stream: stream}
	c.Pipeline.Refuse(ctx, r, err)
	c.Pipeline.Leave(r)
}
