package transport

import (
	"cmp"
	"context"
	"errors"
	"sync"
	"time"

	"google.golang.org/grpc"

	"github.com/weftserve/weft/server/access"
	"github.com/weftserve/weft/sharedsched"
)

// messageStream is a stream whose messages are read here. Each is decided on by the policy that is followed when it
// comes.
type messageStream struct {
	grpc.ServerStream
	call

	one    bool    // the caller sends one message
	model  string  // that the one message is about
	beside Headers // of the stream, for each message

	// Of the message that is being read:
	asked   bool  // Control and quotas were asked
	lasts   bool  // the message keeps how it was let in, because its request outlives the reading of it
	refused error // by them

	sending sync.Mutex // gRPC allows one at a time
}

// Context implements grpc.ServerStream.
func (s *messageStream) Context() context.Context { return s.ctx }

// RecvMsg implements grpc.ServerStream. The steps are: the quotas are asked as the message comes (take), then for what
// it brings besides, then it is decided on. A message that lasts takes its admission with it, and its refusal too, so
// that its request is answered with that; the stream goes on. Any other message that is refused ends the stream.
func (s *messageStream) RecvMsg(into any) error {
	s.mu.Lock()
	s.admission.Release()
	s.mu.Unlock()
	request, lasts := into.(Request)
	s.asked, s.lasts, s.refused = false, lasts, nil
	err := s.receive(into, s.one, s.ServerStream.RecvMsg, s)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.over {
		return cmp.Or(err, context.Canceled)
	}
	if err == nil && !s.asked {
		err = s.admit(0) // gRPC has read the message
	}
	if err == nil {
		err = s.admit(brought(into, s.by))
	}
	if err != nil {
		s.admission.Release()
		if s.refused != nil && errors.Is(err, s.refused) {
			return s.deny("", err)
		}
		return err
	}
	model, priority, err := "", sharedsched.Critical, s.refused
	if err == nil {
		model, priority, err = s.decide(into)
	}
	if s.model = model; err != nil {
		s.admission.Release()
		err = s.note(model, err)
	}
	if lasts {
		request.Common().Admit(s.by, priority, s.admission, err)
		request.Common().Beside(s.beside)
		s.admission = access.Admission{}
		return nil
	}
	if err != nil {
		return s.fail(s.ctx, err, placeOf(model, err))
	}
	return nil
}

// SendMsg implements grpc.ServerStream. Unlike gRPC's it may be called by many at a time. It blocks while the caller
// does not read. Where one message has many answers, its caller may lose the permission between two of them. What is
// held knows of an answer from when there is one: many may wait to be sent.
func (s *messageStream) SendMsg(answer any) error {
	if s.one && !s.rule.Public {
		by, err := s.Control.Again(s.ctx, s.rule, s.by)
		if err == nil && by != s.by {
			s.by = by
			err = by.Check(s.rule, s.model)
		}
		if err != nil {
			return s.deny(s.model, err)
		}
	}
	s.held.Answers(sizeOf(answer))
	s.sending.Lock()
	defer s.sending.Unlock()
	return s.ServerStream.SendMsg(answer)
}

// take implements taker.
func (s *messageStream) take(bytes int) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.over {
		return context.Canceled
	}
	return s.admit(bytes)
}

// admit finds out whose the message is, as of now, and has it counted. A message that keeps how it was let in is read
// even if it is refused: the answer must name its request. The caller holds mu.
func (s *messageStream) admit(bytes int) error {
	if s.rule.Public {
		return nil
	}
	var err error
	if !s.asked {
		s.asked = true
		var by *access.Caller
		if by, err = s.Control.Again(s.ctx, s.rule, s.by); err == nil {
			s.by = by
			s.admission, err = by.Admit(time.Now)
		}
	}
	if err == nil && s.refused == nil {
		err = s.admission.Grow(bytes)
	}
	if err == nil {
		return nil
	}
	s.refused = err
	s.admission.Release()
	if s.lasts {
		return nil
	}
	return err
}
