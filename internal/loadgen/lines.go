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

// lines are PredictStream calls. Each has one request at a time, as that of a control loop: there are as many as
// requests are in flight.
type lines struct {
	client *client

	mu   sync.Mutex
	idle []*line // guarded by mu
}

// line is one of them.
type line struct {
	grpc.ClientStream

	cancel context.CancelFunc
	sent   uint64 // requests; the last one may have no answer yet
}

// predict is a predictor. A request that its client no longer waits for ends its line.
func (s *lines) predict(ctx context.Context, q *payload, into *reply) error {
	l, err := s.take()
	if err != nil {
		return err
	}
	stop := context.AfterFunc(ctx, l.cancel)
	err = l.ask(ctx, q, into)
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

// take returns a line without a request. Lines that are left over end with their connections.
func (s *lines) take() (*line, error) {
	s.mu.Lock()
	if last := len(s.idle) - 1; last >= 0 {
		l := s.idle[last]
		s.idle = s.idle[:last]
		s.mu.Unlock()
		return l, nil
	}
	s.mu.Unlock()
	ctx, cancel := context.WithCancel(context.Background())
	stream, err := s.client.conn().NewStream(ctx, &weftv1.PredictionService_ServiceDesc.Streams[0],
		weftv1.PredictionService_PredictStream_FullMethodName, grpc.ForceCodecV2(codec{}))
	if err != nil {
		cancel()
		return nil, err
	}
	return &line{ClientStream: stream, cancel: cancel}, nil
}

// ask sends a request and waits for its answer. The error is the line's, that of the request is in the reply.
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

// encode gives the bytes of the message; those of the payload are not copied.
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

// lineReply reads a PredictStreamResponse.
type lineReply struct{ *reply }

func (r lineReply) decode(message []byte) error {
	r.failure = nil
	return fieldsOf(message, func(number protowire.Number, value []byte) error {
		switch number {
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
