package transport

import (
	"context"
	"errors"
	"time"

	"google.golang.org/grpc"

	"github.com/weftserve/weft/server/access"
	"github.com/weftserve/weft/server/predict"
	"github.com/weftserve/weft/server/protect"
	"github.com/weftserve/weft/server/status"
	"github.com/weftserve/weft/sharedsched"
)

// guardedStream is a stream on a server that is not open to all. Each of its messages is decided on, by the policy that
// is followed when it comes.
type guardedStream struct {
	grpc.ServerStream

	messages Messages
	ctx      context.Context //nolint:containedctx // the stream's, which this is a part of
	rule     *access.Rule
	one      bool   // the caller sends one message
	model    string // that the one message is about
	held     protect.Handler
	// latest is what the latest message has of the quotas, unless it keeps that itself: until the next one is asked for.
	latest access.Admission

	// Of the message that is being read:
	caller  *access.Caller
	next    access.Admission
	asked   bool  // Door and quotas were asked
	lasts   bool  // the message is one of those that keep how they were let in
	refused error // by them
}

// open lets a stream in, and serves it.
func (m Messages) open(stream grpc.ServerStream, r *access.Rule, one bool, held protect.Handler,
	serve func(grpc.ServerStream) error,
) error {
	ctx := stream.Context()
	caller, err := m.Door.Enter(ctx, r)
	if err != nil {
		return status.Fail(ctx, m.deny(ctx, nil, r, "", err), predict.Place{})
	}
	s := &guardedStream{
		ServerStream: stream, messages: m, ctx: access.WithCaller(ctx, caller), rule: r, one: one, held: held,
		caller: caller,
	}
	defer s.latest.Release()
	return serve(s)
}

// Context implements grpc.ServerStream.
func (s *guardedStream) Context() context.Context { return s.ctx }

// RecvMsg implements grpc.ServerStream.
func (s *guardedStream) RecvMsg(into any) error {
	s.latest.Release()
	message, lasts := into.(Admitted)
	s.asked, s.lasts, s.refused = false, lasts, nil
	err := s.messages.receive(s.ctx, into, s.one, s.ServerStream.RecvMsg, s.held, s)
	if err == nil && !s.asked {
		err = s.take(0) // gRPC has read the message
	}
	if err != nil {
		s.next.Release()
		if s.refused != nil && errors.Is(err, s.refused) {
			return status.Fail(s.ctx, s.messages.deny(s.ctx, s.caller, s.rule, "", err), predict.Place{})
		}
		return err
	}
	if n := brought(into, s.caller); n > 0 {
		if err := s.take(n); err != nil {
			return status.Fail(s.ctx, s.messages.deny(s.ctx, s.caller, s.rule, "", err), predict.Place{})
		}
	}
	model, priority, err := "", sharedsched.Critical, s.refused
	if err == nil {
		model, priority, err = s.messages.decide(s.caller, s.rule, into)
	}
	if s.model = model; err != nil {
		s.next.Release()
		err = s.messages.deny(s.ctx, s.caller, s.rule, model, err)
	}
	if lasts {
		message.Admit(s.caller, priority, s.next, err)
		s.next = access.Admission{}
		return nil
	}
	s.latest, s.next = s.next, access.Admission{}
	if err != nil {
		return status.Fail(s.ctx, err, predict.Place{Model: placeOf(model, err)})
	}
	return nil
}

// SendMsg implements grpc.ServerStream. Where one message has many answers, its caller may lose the permission between
// two of them.
func (s *guardedStream) SendMsg(answer any) error {
	if s.one && !s.rule.Public {
		c, err := s.messages.Door.Again(s.ServerStream.Context(), s.rule, s.caller)
		if err == nil && c != s.caller {
			s.caller = c
			err = c.Check(s.rule, s.model)
		}
		if err != nil {
			err = s.messages.deny(s.ctx, s.caller, s.rule, s.model, err)
			return status.Fail(s.ctx, err, predict.Place{Model: placeOf(s.model, err)})
		}
	}
	return s.ServerStream.SendMsg(answer)
}

// take implements taker. It finds out whose the message is, as of now, and has it counted. A message that keeps how it
// was let in is read even if it is refused: the answer must name its request.
func (s *guardedStream) take(bytes int) error {
	if s.rule.Public {
		return nil
	}
	var err error
	if !s.asked {
		s.asked = true
		var c *access.Caller
		if c, err = s.messages.Door.Again(s.ServerStream.Context(), s.rule, s.caller); err == nil {
			s.caller = c
			s.next, err = c.Admit(time.Now)
		}
	}
	if err == nil && s.refused == nil {
		err = s.next.Grow(bytes)
	}
	if err == nil {
		return nil
	}
	s.refused = err
	s.next.Release()
	if s.lasts {
		return nil
	}
	return err
}
