package transport

import (
	"context"
	"errors"
	"io"
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

// call is a call that is being served. It belongs to the goroutine of its handler, but for streams, whose answers may
// be sent by others.
type call struct {
	*Calls

	ctx  context.Context //nolint:containedctx // the call's, which this is a part of
	rule *access.Rule
	held protect.Handler
	by   *access.Caller // nil: anybody, on a server that is open to all
	// admission is what a unary call, or the latest message of a stream, has of the quotas. Guarded by mu: a handler may
	// end while another goroutine still waits for a message.
	admission access.Admission
	mu        sync.Mutex
	over      bool // the handler has ended, and nothing is admitted any more. Guarded by mu.
	predicts  bool // it is unary, and its message a Request, which keeps its caller itself
}

// enter finds out who calls. The error ends the call.
func (c *call) enter() (err error) {
	if c.by, err = c.Control.Enter(c.ctx, c.rule); err != nil {
		return c.deny("", err)
	}
	return nil
}

// end notes that the handler has ended, and gives back what the call has. A panic ends the call with an error; it is
// logged as well, because the caller must not see the server's internals.
func (c *call) end(caught any, err *error) {
	if fault := predict.Recovered(c.ctx, c.Logger, c.rule.Method, caught); fault != nil {
		*err = status.Of(fault, predict.Place{}).Err()
	}
	c.mu.Lock()
	c.over = true
	c.admission.Release()
	c.mu.Unlock()
	c.held.End(status.OfCaller(*err))
	if c.Ended != nil {
		c.Ended(c.ctx, *err)
	}
}

// decide decides on a message: whether its caller may ask that about the model, and with which priority. It returns the
// model that the message is about, and the priority that it gets.
func (c *call) decide(message any) (model string, p sharedsched.Priority, err error) {
	switch m := message.(type) {
	case Request:
		x := m.Common()
		if err = c.by.Check(c.rule, x.Model); err != nil {
			return x.Model, x.Priority, err
		}
		p, err = c.by.Priority(x.Priority, x.Chosen)
		return x.Model, p, err
	case proto.Message:
		model = c.rule.Model(m)
	}
	return model, 0, c.by.Check(c.rule, model)
}

// note notes that something was refused, and returns the error that its caller may see.
func (c *call) note(model string, err error) error {
	c.Control.Deny(c.ctx, c.by, c.rule.Method, model, err)
	return c.Narrow(c.by, err)
}

// deny ends the call, or the reading of a stream, with an error. A prediction that is denied before it comes to the
// pipeline is counted there as a request that was refused.
func (c *call) deny(model string, err error) error {
	err = c.note(model, err)
	if c.predicts {
		c.refuse(c.ctx, err, false)
	}
	return c.fail(c.ctx, err, placeOf(model, err))
}

// placeOf returns what an error is about, as far as its caller may know of that: the model is named only to one who
// knows that it is there, but lacks a permission on it.
func placeOf(model string, err error) predict.Place {
	if _, denied := errors.AsType[*access.DeniedError](err); denied {
		return predict.Place{Model: model}
	}
	return predict.Place{}
}

// receive reads the next message. The error is io.EOF where a stream has no more, which is a fault if one must come, or
// the one that ends the call. decode is how gRPC does it. An error of by is returned as it is.
func (c *call) receive(into any, must bool, decode func(any) error, by taker) error {
	from, ok := grpc.ServerTransportStreamFromContext(c.ctx).(inbound)
	if !ok || typeOf(into) == "" {
		return decode(into)
	}
	c.held.Reads(must)
	n, err := receive(from, newCodec(c.Memory), into, c.MaxMessageBytes, c.held, by)
	c.held.Read(n)
	// A call of one message must bring it.
	if must && errors.Is(err, io.EOF) {
		err = &status.BrokenMessageError{Want: typeOf(into), Why: "no message came"}
	}
	_, broken := errors.AsType[*status.BrokenMessageError](err)
	_, large := errors.AsType[*status.MessageTooLargeError](err)
	if !broken && !large {
		return err // nil, the end of the stream, that of the connection, or that of by
	}
	if _, predicts := into.(Request); predicts {
		c.refuse(c.ctx, err, !must)
	}
	return status.Fail(c.ctx, err, predict.Place{})
}

// unaryCall is a call of one message and one answer.
type unaryCall struct {
	call

	decode func(any) error
	read   func(any) error // is readMessage
}

// unaryCalls are used again, so that a call allocates nothing for being decided on.
var unaryCalls = sync.Pool{New: func() any {
	c := new(unaryCall)
	c.read = c.readMessage
	return c
}}

// serve lets the call in, or refuses it before its message is read, and has it handled: the caller is found, the quota
// of requests taken, then the handler has the message read, which takes the quota of bytes and is decided on.
func (c *unaryCall) serve(handler grpc.MethodHandler, srv any) (any, error) {
	if err := c.enter(); err != nil {
		return nil, err
	}
	var err error
	if !c.rule.Public {
		if c.admission, err = c.by.Admit(time.Now); err != nil {
			return nil, c.deny("", err)
		}
	}
	ctx := c.ctx
	if c.by != nil && !c.predicts {
		ctx = access.WithCaller(ctx, c.by)
	}
	answer, err := handler(srv, ctx, c.read, nil)
	if err != nil {
		return nil, err
	}
	size := sizeOf(answer)
	if _, is := answer.(proto.Message); is && !c.predicts { // predictions were checked when they were encoded
		if err := c.checkSize(size, "name one model"); err != nil {
			return nil, status.Fail(ctx, err, predict.Place{})
		}
	}
	c.held.Answers(size)
	return answer, nil
}

// readMessage reads the message, and decides on it. The handler of the generated code calls it with an empty message.
func (c *unaryCall) readMessage(into any) error {
	err := c.receive(into, true, c.decode, c)
	if _, quota := errors.AsType[*access.QuotaError](err); err != nil && !quota {
		return err
	}
	if err == nil {
		err = c.take(brought(into, c.by))
	}
	if err != nil {
		return c.deny("", err)
	}
	model, priority, err := c.decide(into)
	if err != nil {
		return c.deny(model, err)
	}
	if r, is := into.(Request); is {
		// The call keeps its admission itself, until it ends.
		r.Common().Admit(c.by, priority, access.Admission{}, nil)
		r.Common().Beside(headersOf(c.ctx))
	}
	return nil
}

// take implements taker.
func (c *unaryCall) take(bytes int) error { return c.admission.Grow(bytes) }

// sizeOf returns how many bytes an answer takes when it is sent, without its framing.
func sizeOf(answer any) int {
	switch a := answer.(type) {
	case *Encoded:
		return a.Bytes()
	case proto.Message:
		return proto.Size(a)
	}
	return 0
}
