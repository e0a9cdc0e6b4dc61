package loadgen

import (
	"context"
	"errors"
	"io"
	"strconv"
	"sync"
	"time"

	"google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc"
	"google.golang.org/grpc/mem"
	grpcstatus "google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	weftv1 "github.com/weftserve/weft/proto/gen/weft/v1"
)

// lines sends requests over PredictStream calls. Each call has one request at a time, as a control loop has. There
// are as many calls as requests were ever in flight at once.
type lines struct {
	client *client

	// mu is held for moments only, and never while a request is sent.
	mu   sync.Mutex
	idle []*line // guarded by mu
}

// line is a PredictStream call. It belongs to one request from take until it is idle again.
type line struct {
	grpc.ClientStream

	// cancel ends the call, and with it a request that waits for its answer.
	cancel context.CancelFunc
	sent   uint64 // requests; the last one may have no answer yet
}

// predict is a predictor. If a request fails by its deadline, its line ends with it: the answer might come later, and
// would be taken for that of the next request.
func (s *lines) predict(ctx context.Context, q *payload, into *reply) error {
	l, err := s.take()
	if err != nil {
		return err
	}
	stop := context.AfterFunc(ctx, l.cancel)
	err = l.ask(ctx, q, into)
	// stop fails if the context has ended first, and the line with it. Its error is then the line's, so that of the
	// request is made here.
	switch {
	case !stop():
		return grpcstatus.FromContextError(ctx.Err()).Err()
	case err != nil:
		l.cancel()
		return err
	}
	s.mu.Lock()
	s.idle = append(s.idle, l)
	s.mu.Unlock()
	return into.failure
}

// take returns a line without a request, a new one if none is idle. A line outlives the context of its requests. Idle
// lines end when their connections are closed.
func (s *lines) take() (*line, error) {
	s.mu.Lock()
	if last := len(s.idle) - 1; last >= 0 {
		l := s.idle[last]
		s.idle = s.idle[:last]
		s.mu.Unlock()
		return l, nil
	}
	s.mu.Unlock()
	// The context of the request would end the call with the request.
	ctx, cancel := context.WithCancel(context.Background())
	stream, err := s.client.conn().NewStream(ctx, &weftv1.PredictionService_ServiceDesc.Streams[0],
		weftv1.PredictionService_PredictStream_FullMethodName, grpc.ForceCodecV2(codec{}))
	if err != nil {
		cancel()
		return nil, err
	}
	return &line{ClientStream: stream, cancel: cancel}, nil
}

// ask sends a request and waits for its answer. It returns the error of the line; the error of the request is in the
// reply.
func (l *line) ask(ctx context.Context, q *payload, into *reply) error {
	l.sent++
	m := &lineMessage{payload: q, id: strconv.FormatUint(l.sent, 10)}
	if by, has := ctx.Deadline(); has {
		m.timeout = max(time.Until(by), 1) // zero would be none
	}
	if err := l.SendMsg(m); err != nil && !errors.Is(err, io.EOF) { // EOF: the answer has the status
		return err
	}
	return l.RecvMsg(&lineReply{into})
}

// lineMessage is a PredictStreamRequest.
type lineMessage struct {
	*payload

	// id tells the requests of a line apart. timeout replaces a deadline, which a stream has only one of.
	id      string
	timeout time.Duration // 0: none
}

// Numbers of fields of a line's messages.
const (
	idField       = 4 // PredictRequest.request_id
	requestField  = 1 // PredictStreamRequest.request
	timeoutField  = 2 // PredictStreamRequest.timeout
	responseField = 2 // PredictStreamResponse.response
	errorField    = 3 // PredictStreamResponse.error
)

// encode returns the bytes of the message. The request is its only nested message, so that its payload stands between a
// head and a tail without being copied. The id goes into the request behind the payload.
func (m *lineMessage) encode() (mem.BufferSlice, error) {
	id := protowire.AppendString(protowire.AppendTag(nil, idField, protowire.BytesType), m.id)
	head := protowire.AppendTag(nil, requestField, protowire.BytesType)
	head = protowire.AppendVarint(head, uint64(len(m.encoded)+len(id)))
	tail := id // the last of several values of a field counts
	if m.timeout > 0 {
		timeout, err := proto.Marshal(durationpb.New(m.timeout))
		if err != nil {
			return nil, err
		}
		tail = protowire.AppendBytes(protowire.AppendTag(tail, timeoutField, protowire.BytesType), timeout)
	}
	return mem.BufferSlice{mem.SliceBuffer(head), mem.SliceBuffer(m.encoded), mem.SliceBuffer(tail)}, nil
}

// lineReply decodes a PredictStreamResponse, which has either an answer or a status.
type lineReply struct{ *reply }

// decode reads the answer, or the status of the request. A line goes on after a request that failed.
func (r lineReply) decode(message []byte) error {
	r.failure = nil
	return fieldsOf(message, func(number protowire.Number, value []byte) error {
		switch number {
		// The execution is within the answer, which is a message of its own.
		case responseField:
			return r.reply.decode(value)
		case errorField:
			var failed status.Status
			if err := proto.Unmarshal(value, &failed); err != nil {
				return err
			}
			r.failure = grpcstatus.ErrorProto(&failed)
		default:
		}
		return nil
	})
}
