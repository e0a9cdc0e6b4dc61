package transport

import (
	"context"
	"errors"
	"log/slog"
	"net/http"

	"github.com/weftserve/weft/runtime/tensor"
	"github.com/weftserve/weft/server/access"
	"github.com/weftserve/weft/server/predict"
	"github.com/weftserve/weft/server/protect"
	"github.com/weftserve/weft/server/routing"
	"github.com/weftserve/weft/server/status"
	"github.com/weftserve/weft/sharedsched"
)

// Calls holds the parts that the services of all protocols share. It must not be changed once one of them is used.
type Calls struct {
	Pipeline *predict.Pipeline
	// MaxInFlightPerStream is how many requests of one stream may be unanswered before the server stops reading it.
	MaxInFlightPerStream int
	// MaxMessageBytes is the largest message in bytes, with its framing on a stream.
	MaxMessageBytes int
	// Memory is where answers lie until they were sent.
	Memory tensor.Memory
	// Throttle learns how requests ended.
	Throttle *protect.Throttle
	// Logger gets changes and panics.
	Logger *slog.Logger
	// Codes returns the error of a call as the protocol has it; nil: as it is.
	Codes func(error) error
}

// Request is a request of a protocol on its way, from its bytes to its answer. It is used again for another request
// once it was released.
type Request interface {
	Admitted
	// Asked is the request that the message was read as.
	Asked() *predict.Request
	// Entrance says how it was let in.
	Entrance() *Entrance
	// Answer is the message that answers it, once it was predicted.
	Answer() any
	// Release gives back all that the request holds, but for the answer, which is its sender's.
	Release()
}

// Entrance says how a message was let in; it is zero on a server that is open to all.
type Entrance struct {
	Caller    *access.Caller
	Admission access.Admission
	// Refused is why it was not, on a stream.
	Refused error
	// Holds is what the message has besides, which ends with it also where its handler panics.
	Holds []interface{ Release() }
}

// Admit is a part of Admitted: r is the request of the message.
func (e *Entrance) Admit(r *predict.Request, c *access.Caller, p sharedsched.Priority, a access.Admission,
	refused error,
) {
	e.Caller, e.Admission, e.Refused = c, a, refused
	r.Priority, r.Caller = p, c.Caller
}

// Leave gives back what the message has of quotas, and all that it holds.
func (e *Entrance) Leave() {
	e.Admission.Release()
	for _, held := range e.Holds {
		held.Release()
	}
	*e = Entrance{}
}

// Fail returns the error with which a unary call ends.
func (h *Calls) Fail(ctx context.Context, err error, at predict.Place) error {
	return h.failed(ctx, access.CallerOf(ctx), err, at)
}

// failed is Fail of a caller that the context may not know.
func (h *Calls) failed(ctx context.Context, c *access.Caller, err error, at predict.Place) error {
	err = status.Fail(ctx, h.Narrow(c, err), at)
	if h.Codes != nil {
		err = h.Codes(err)
	}
	return err
}

// RefusesPage notes that the answer which is to be written is this error.
func (*Calls) RefusesPage(w http.ResponseWriter, err error) { protect.Refuses(w, status.OfCaller(err)) }

// Narrow returns an error as its caller may see it: one that lists models lists those that the caller may know of.
func (h *Calls) Narrow(c *access.Caller, err error) error {
	if c.SeesAll() {
		return err
	}
	if absent, is := errors.AsType[*routing.NotFoundError](err); is && absent.Kind == routing.KindModel {
		return h.Pipeline.Table().Absent(absent.Name, c.Sees)
	}
	return err
}

// CheckSize refuses an answer that gRPC would refuse to send, which on a stream would end it for every request.
func (h *Calls) CheckSize(bytes int) error {
	if limit := h.MaxMessageBytes; bytes > limit {
		return &status.AnswerTooLargeError{Bytes: bytes, Limit: limit, Remedy: "ask for fewer outputs or rows"}
	}
	return nil
}
