package weftclient

import (
	"context"
	"errors"
	"io"
	"maps"
	"slices"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"

	weftv1 "github.com/weftserve/weft/proto/gen/weft/v1"
)

// Stream carries many requests, for one control loop. One goroutine may call Send while another one calls Recv. The end
// of its context ends the stream.
//
// A server that stops ends a stream where an episode ends, or soon. The Stream then opens another one by itself, as
// often in a row as [WithAttempts] says, and sends the requests again that the server has not accepted: each gets one
// answer. The tensors of a request must not change until then.
type Stream struct {
	open     func() (stream, error)
	over     <-chan struct{} // closed when the context ends
	attempts int
	tries    int       // how often it was opened since the latest answer, or since one lived long; used by Recv only
	opened   time.Time // the one that lives; used by Recv only

	sending sync.Mutex // held while requests are sent; also from the end of a stream until the next one has what it gets

	mu      sync.Mutex
	now     stream // guarded by mu, as is the rest
	waiting []sent // has no answer, in the order in which it was sent
	closed  bool   // CloseSend was called
	ended   bool   // Recv has returned an error
}

type stream = grpc.BidiStreamingClient[weftv1.PredictStreamRequest, weftv1.PredictStreamResponse]

// sent is a request that was sent at a time.
type sent struct {
	*weftv1.PredictStreamRequest
	at time.Time
}

// StreamRequest is a request on a stream. Its ID is required.
type StreamRequest struct {
	Request

	// Timeout is the time after which the answer is worth nothing. 0: the model's limit.
	Timeout time.Duration
	// Supersede has the newest observation win: requests of the same episode that still wait end with the code Aborted.
	Supersede bool
}

// StreamAnswer is the end of a request on a stream: an answer, or an error.
type StreamAnswer struct {
	ID     string
	Answer *Answer // nil where there is an error
	Err    error   // nil, or an *Error; it ends no other request
}

// PredictStream opens a stream, which lives until Recv has returned an error, or the context ends. See [Beside] for one
// whose requests are of one episode.
func (c *Client) PredictStream(ctx context.Context, options ...grpc.CallOption) (*Stream, error) {
	s := &Stream{
		open: func() (stream, error) {
			opened, err := c.predictions.PredictStream(ctx, options...)
			return opened, errorOf(err)
		},
		over: ctx.Done(), attempts: c.attempts, opened: time.Now(),
	}
	var err error
	if s.now, err = s.open(); err != nil {
		return nil, err
	}
	return s, nil
}

// Send sends a request. It may block while 64 requests have no answer. The error io.EOF says that Recv has returned why
// the stream has ended.
func (s *Stream) Send(q *StreamRequest) error {
	m := &weftv1.PredictStreamRequest{Request: q.message(), Supersede: q.Supersede}
	m.Request.Inputs = maps.Clone(q.Inputs) // a caller may use the map for the next request
	if q.Timeout != 0 {
		m.Timeout = durationpb.New(q.Timeout)
	}
	s.sending.Lock()
	defer s.sending.Unlock()
	s.mu.Lock()
	to, ended := s.now, s.ended
	if !ended {
		s.waiting = append(s.waiting, sent{m, time.Now()})
	}
	s.mu.Unlock()
	if ended {
		return io.EOF
	}
	if err := to.Send(m); !errors.Is(err, io.EOF) {
		return errorOf(err)
	}
	return nil // Recv hears why the stream has ended, and may send the request on another one
}

// Recv waits for the next answer. Answers come as soon as they are ready, in any order. An error ends the stream. It is
// io.EOF after CloseSend, once every request was answered.
func (s *Stream) Recv() (*StreamAnswer, error) {
	for {
		s.mu.Lock()
		from := s.now
		s.mu.Unlock()
		m, err := from.Recv()
		if err != nil {
			if err = s.again(errorOf(err)); err != nil {
				return nil, err
			}
			continue
		}
		answer := &StreamAnswer{ID: m.GetRequestId()}
		if e := m.GetError(); e != nil {
			why := statusError(status.FromProto(e))
			if why.Reason == draining {
				continue // it was not accepted, and the stream ends soon
			}
			answer.Err = why
		} else {
			answer.Answer = answerOf(m.GetResponse())
		}
		s.tries = 0
		s.mu.Lock()
		if i := slices.IndexFunc(s.waiting, func(q sent) bool { return q.GetRequest().GetRequestId() == answer.ID }); i >= 0 {
			s.waiting = slices.Delete(s.waiting, i, i+1)
		}
		s.mu.Unlock()
		return answer, nil
	}
}

// draining is the reason of a server that stops: a request was not accepted, and a stream is to be opened again.
const draining = "DRAINING"

// again opens the stream again, if the server ended it because it stops, and returns nil; else it returns why the
// stream has ended for good.
func (s *Stream) again(err error) error {
	if why, is := errors.AsType[*Error](err); is && why.Reason == draining {
		// A Send on the stream that has ended returns; the next one goes to the new stream.
		s.sending.Lock()
		s.mu.Lock()
		waiting, closed := slices.Clone(s.waiting), s.closed
		s.mu.Unlock()
		next, failed := stream(nil), io.EOF
		if !closed || len(waiting) > 0 {
			next, failed = s.reopen(err)
		}
		if err = failed; err == nil {
			s.mu.Lock()
			s.now = next
			s.mu.Unlock()
			go s.resend(next, waiting, closed) // Recv takes the answers meanwhile
			return nil
		}
		s.sending.Unlock()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ended = true
	return err
}

// reopen opens another stream: at once, and then at growing intervals where no server is there. The error is the
// latest, or why the stream before has ended.
func (s *Stream) reopen(err error) (stream, error) {
	// A server had it, which did not stop just then. There need not have been anything to answer.
	if time.Since(s.opened) > mostWait {
		s.tries = 0
	}
	for wait := leastWait; s.tries < s.attempts-1; wait = min(2*wait, mostWait) {
		if s.tries++; s.tries > 1 {
			select {
			case <-time.After(wait):
			case <-s.over: // as opening it will say
			}
		}
		next, failed := s.open()
		if failed == nil {
			s.opened = time.Now()
			return next, nil
		}
		if err = failed; status.Code(err) != codes.Unavailable {
			break
		}
	}
	return nil, err
}

// resend sends the requests that a stream before has not accepted. They have what is left of their time.
func (s *Stream) resend(to stream, waiting []sent, closed bool) {
	defer s.sending.Unlock()
	for _, q := range waiting {
		m := &weftv1.PredictStreamRequest{Request: q.GetRequest(), Supersede: q.GetSupersede()}
		if t := q.GetTimeout(); t != nil {
			m.Timeout = durationpb.New(max(1, t.AsDuration()-time.Since(q.at))) // the server says that it is too late
		}
		if to.Send(m) != nil {
			return // Recv hears why
		}
	}
	if closed {
		_ = to.CloseSend() // Recv would hear of an error
	}
}

// CloseSend says that no request follows. Recv goes on until all were answered.
func (s *Stream) CloseSend() error {
	s.sending.Lock()
	defer s.sending.Unlock()
	s.mu.Lock()
	s.closed = true
	to := s.now
	s.mu.Unlock()
	return errorOf(to.CloseSend())
}
