package weftclient

import (
	"context"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"

	weftv1 "github.com/weftserve/weft/proto/gen/weft/v1"
)

// Stream carries many requests, for one control loop. One goroutine may call Send while another one calls Recv. The end
// of its context ends the stream.
type Stream struct {
	stream grpc.BidiStreamingClient[weftv1.PredictStreamRequest, weftv1.PredictStreamResponse]
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

// PredictStream opens a stream, which lives until Recv has returned an error, or the context ends.
func (c *Client) PredictStream(ctx context.Context, options ...grpc.CallOption) (*Stream, error) {
	stream, err := c.predictions.PredictStream(ctx, options...)
	if err != nil {
		return nil, errorOf(err)
	}
	return &Stream{stream}, nil
}

// Send sends a request. It may block while 64 requests have no answer. The error io.EOF says that the stream has ended;
// Recv says why.
func (s *Stream) Send(q *StreamRequest) error {
	m := &weftv1.PredictStreamRequest{Request: q.message(), Supersede: q.Supersede}
	if q.Timeout != 0 {
		m.Timeout = durationpb.New(q.Timeout)
	}
	return errorOf(s.stream.Send(m))
}

// Recv waits for the next answer. Answers come as soon as they are ready, in any order. An error ends the stream. It is
// io.EOF after CloseSend, once every request was answered, or when the server stops; then requests without an answer
// never ran.
func (s *Stream) Recv() (*StreamAnswer, error) {
	m, err := s.stream.Recv()
	if err != nil {
		return nil, errorOf(err)
	}
	if e := m.GetError(); e != nil {
		return &StreamAnswer{ID: m.GetRequestId(), Err: statusError(status.FromProto(e))}, nil
	}
	return &StreamAnswer{ID: m.GetRequestId(), Answer: answerOf(m.GetResponse())}, nil
}

// CloseSend says that no request follows. Recv goes on until all were answered.
func (s *Stream) CloseSend() error { return errorOf(s.stream.CloseSend()) }
