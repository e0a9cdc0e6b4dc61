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

// Stream carries the requests of one control loop. One goroutine may call Send while another calls Recv. The end of the
// context ends the stream.
//
// A server that stops ends the stream, if possible between two episodes. The Stream then opens a new one by itself,
// within the attempts of [WithAttempts], and resends the requests that the server did not accept, so each request gets
// one answer. Do not change the tensors of a request before its answer.
type Stream struct {
	open     func() (stream, error)
	over     <-chan struct{} // closed when the context ends
	attempts int
	tries    int       // opens since the latest answer, or since a stream lived long; used by Recv only
	opened   time.Time // when now was opened; used by Recv only

	sending sync.Mutex // held while requests are sent, and from the end of a stream until resend is done

	mu      sync.Mutex
	now     stream // guarded by mu, like the fields below
	waiting []sent // without an answer, in the order of sending
	closed  bool   // CloseSend was called
	ended   bool   // Recv has returned an error
}

type stream = grpc.BidiStreamingClient[weftv1.PredictStreamRequest, weftv1.PredictStreamResponse]

// sent is a request with the time at which it was sent.
type sent struct {
	*weftv1.PredictStreamRequest
	at time.Time
}

// StreamRequest is a request on a stream. Its ID is required.
type StreamRequest struct {
	Request

	// Timeout is the request's deadline, counted from its arrival; 0: the model's max_latency.
	Timeout time.Duration
	// Supersede cancels queued requests of the same episode, so that the newest observation wins. They end with the code
	// Aborted.
	Supersede bool
}

// StreamAnswer is the result of a request on a stream: an answer or an error.
type StreamAnswer struct {
	ID     string
	Answer *Answer // nil if there is an error
	Err    error   // nil or an *Error; it does not affect other requests
}

// PredictStream opens a stream, which lives until Recv returns an error or the context ends. If all its requests belong
// to one episode, see [Beside].
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

// Send sends a request. It may block while 64 requests have no answer. The error io.EOF means that Recv has returned
// the error that ended the stream.
func (s *Stream) Send(q *StreamRequest) error {
	m := &weftv1.PredictStreamRequest{Request: q.message(), Supersede: q.Supersede}
	m.Request.Inputs = maps.Clone(q.Inputs) // the caller may reuse the map for the next request
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
	return nil // Recv gets the error that ended the stream, and may resend the request on a new stream
}

// Recv waits for the next answer. Answers come as soon as they are ready, in any order. An error ends the stream. It is
// io.EOF after CloseSend, when every request has been answered.
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
				continue // the request was not accepted, and the stream ends soon
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

// draining is the reason of a server that stops: it did not accept the request, so open a new stream.
const draining = "DRAINING"

// again opens a new stream and returns nil if the server ended the stream because it stops. Otherwise it returns the
// error that ended the stream for good.
func (s *Stream) again(err error) error {
	if why, is := errors.AsType[*Error](err); is && why.Reason == draining {
		// A Send on the ended stream returns; the next Send goes to the new stream.
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
			go s.resend(next, waiting, closed) // Recv takes answers meanwhile
			return nil
		}
		s.sending.Unlock()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ended = true
	return err
}

// reopen opens another stream: at once, and then at growing intervals while no server is there. It returns the latest
// error, or the error that ended the previous stream.
func (s *Stream) reopen(err error) (stream, error) {
	// The stream lived for long, so its server was not just stopping. There need not have been any requests.
	if time.Since(s.opened) > mostWait {
		s.tries = 0
	}
	for wait := leastWait; s.tries < s.attempts-1; wait = min(2*wait, mostWait) {
		if s.tries++; s.tries > 1 {
			select {
			case <-time.After(wait):
			case <-s.over: // open returns that error
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

// resend sends the requests that the previous stream did not accept. They keep what is left of their timeout.
func (s *Stream) resend(to stream, waiting []sent, closed bool) {
	defer s.sending.Unlock()
	for _, q := range waiting {
		m := &weftv1.PredictStreamRequest{Request: q.GetRequest(), Supersede: q.GetSupersede()}
		if t := q.GetTimeout(); t != nil {
			m.Timeout = durationpb.New(max(1, t.AsDuration()-time.Since(q.at))) // if it is too late, the server says so
		}
		if to.Send(m) != nil {
			return // Recv gets the error
		}
	}
	if closed {
		_ = to.CloseSend() // Recv would get an error
	}
}

// CloseSend announces that no request follows. Recv continues until all requests have been answered.
func (s *Stream) CloseSend() error {
	s.sending.Lock()
	defer s.sending.Unlock()
	s.mu.Lock()
	s.closed = true
	to := s.now
	s.mu.Unlock()
	return errorOf(to.CloseSend())
}
