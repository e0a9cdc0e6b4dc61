package transport

import (
	"context"
	"errors"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"

	"github.com/weftserve/weft/server/access"
	"github.com/weftserve/weft/server/predict"
	"github.com/weftserve/weft/server/protect"
	"github.com/weftserve/weft/server/status"
	"github.com/weftserve/weft/sharedsched"
)

// Admitted is a message that keeps how it was let in, because its request outlives the reading of it.
type Admitted interface {
	Message
	// Asks returns the model and the priority that it asks for. Chosen: its caller has named the priority.
	Asks() (model string, p sharedsched.Priority, chosen bool)
	// Admit says whose it is, with which priority, and what it has of the quotas, which it must release when its request
	// has left the server. On a stream its request may be refused by that error, so that an answer says so; else the
	// stream, or the call, has ended with it.
	Admit(c *access.Caller, p sharedsched.Priority, a access.Admission, refused error)
}

// Bringing is a message whose request has more bytes than the message itself, such as those that it names in memory
// which its caller shares with the server. They count as if they had come.
type Bringing interface {
	// Brings returns their number, 0 where the caller may not name them and will be denied.
	Brings(by *access.Caller) int
}

// brought returns how many those are.
func brought(message any, by *access.Caller) int {
	if b, is := message.(Bringing); is {
		return b.Brings(by)
	}
	return 0
}

// entrance is a unary call on its way in, on a server that is not open to all.
type entrance struct {
	*Messages

	ctx       context.Context //nolint:containedctx // the call's, which this is a part of
	rule      *access.Rule
	decode    func(any) error
	caller    *access.Caller
	admission access.Admission
	held      protect.Handler

	reads func(any) error // is read
}

// entrances are used again, so that a call that is decided on allocates nothing for that.
var entrances = sync.Pool{New: func() any {
	e := new(entrance)
	e.reads = e.read
	return e
}}

func (m *Messages) enter(ctx context.Context, r *access.Rule, decode func(any) error, held protect.Handler,
) *entrance {
	e := entrances.Get().(*entrance)
	e.Messages, e.ctx, e.rule, e.decode, e.held = m, ctx, r, decode, held
	return e
}

// leave gives back what the call has, also where its handler panics.
func (e *entrance) leave() {
	e.admission.Release()
	*e = entrance{reads: e.reads}
	entrances.Put(e)
}

// handle lets the call in, or refuses it before its message is read.
func (e *entrance) handle(handler grpc.MethodHandler, srv any, interceptor grpc.UnaryServerInterceptor) (any, error) {
	defer e.leave()
	var err error
	if e.caller, err = e.Door.Enter(e.ctx, e.rule); err != nil {
		return nil, e.turnAway("", err)
	}
	if !e.rule.Public {
		if e.admission, err = e.caller.Admit(time.Now); err != nil {
			return nil, e.turnAway("", err)
		}
	}
	ctx := e.ctx
	if e.Keeps == nil || !e.Keeps(e.rule.Method) {
		ctx = access.WithCaller(ctx, e.caller)
	}
	reply, err := handler(srv, ctx, e.reads, interceptor)
	return e.reply(ctx, reply, err, e.held)
}

// read reads the message, and decides on it.
func (e *entrance) read(into any) error {
	if err := e.receive(e.ctx, into, true, e.decode, e.held, e); err != nil {
		if isQuota(err) {
			return e.turnAway("", err)
		}
		return err
	}
	if err := e.take(brought(into, e.caller)); err != nil {
		return e.turnAway("", err)
	}
	model, priority, err := e.decide(e.caller, e.rule, into)
	if err != nil {
		return e.turnAway(model, err)
	}
	if message, keeps := into.(Admitted); keeps {
		message.Admit(e.caller, priority, access.Admission{}, nil)
	}
	return nil
}

// take implements taker.
func (e *entrance) take(bytes int) error { return e.admission.Grow(bytes) }

// turnAway ends the call.
func (e *entrance) turnAway(model string, err error) error {
	err = e.deny(e.ctx, e.caller, e.rule, model, err)
	if e.Refused != nil {
		e.Refused(e.ctx, e.rule.Method, err)
	}
	err = status.Fail(e.ctx, err, predict.Place{Model: placeOf(model, err)})
	if e.Codes != nil {
		err = e.Codes(e.rule.Method, err)
	}
	return err
}

// placeOf returns the model that an error is about, as far as its caller may know of that.
func placeOf(model string, err error) string {
	if _, denied := errors.AsType[*access.DeniedError](err); denied {
		return model
	}
	return ""
}

// decide decides on a message. It returns the model that the message is about, and the priority that it gets.
func (m Messages) decide(c *access.Caller, r *access.Rule, message any) (string, sharedsched.Priority, error) {
	switch message := message.(type) {
	case Admitted:
		model, asked, chosen := message.Asks()
		if err := c.Check(r, model); err != nil {
			return model, asked, err
		}
		priority, err := c.Priority(asked, chosen)
		return model, priority, err
	case proto.Message:
		model := r.Model(message)
		return model, 0, c.Check(r, model)
	}
	return "", 0, c.Check(r, "")
}

// deny notes that something was refused, and returns the error that its caller may see.
func (m Messages) deny(ctx context.Context, c *access.Caller, r *access.Rule, model string, err error) error {
	m.Door.Deny(ctx, c, r.Method, model, err)
	if hidden, is := errors.AsType[*access.HiddenError](err); is {
		return m.Absent(hidden.Model, c.Sees)
	}
	return err
}

func isQuota(err error) bool {
	_, is := errors.AsType[*access.QuotaError](err)
	return is
}
