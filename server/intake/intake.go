package intake

import (
	"context"
	"net"
	"sync/atomic"
	"time"

	"google.golang.org/grpc/peer"
)

// Listen returns a listener whose connections tell how long what is read from them has waited, where the system tells
// when it came. timeout is how long they may leave what was sent to them unconfirmed, as gRPC sets it for connections of
// its own; 0: the system's.
func Listen(l net.Listener, timeout time.Duration) net.Listener { return &listener{l, timeout} }

type listener struct {
	net.Listener

	timeout time.Duration
}

// Accept implements net.Listener.
func (l *listener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return wrap(c, l.timeout), nil
}

// stamp is what is known of a connection's latest read.
type stamp struct {
	came atomic.Int64 // when its newest bytes came, in nanoseconds since 1970, as the kernel has it; 0: unknown
	late atomic.Int64 // how long ago that was when the header of the latest call was read
}

// address is that of the other end of a connection, by which a call finds its connection.
type address struct {
	net.Addr

	*stamp
}

// of returns what is known of the connection of a call; nil: nothing.
func of(ctx context.Context) *stamp {
	if p, ok := peer.FromContext(ctx); ok {
		if from, ok := p.Addr.(*address); ok {
			return from.stamp
		}
	}
	return nil
}

// Header notes that the header of a call is being read. gRPC sets the call's deadline then.
func Header(ctx context.Context, now time.Time) {
	if s := of(ctx); s != nil {
		s.late.Store(int64(s.waited(now)))
	}
}

// Late returns by how much the deadline of a call that was just read is later than its caller means: how long its bytes
// had waited when its header was read; 0 where that is not known. It is that of the connection's latest call: others
// that were read since have waited about as long.
func Late(ctx context.Context) time.Duration {
	if s := of(ctx); s != nil {
		return time.Duration(s.late.Load())
	}
	return 0
}

// Waited returns how long ago a message of a stream came that was just read, 0 where that is not known.
func Waited(ctx context.Context, now time.Time) time.Duration {
	if s := of(ctx); s != nil {
		return s.waited(now)
	}
	return 0
}

func (s *stamp) waited(now time.Time) time.Duration {
	came := s.came.Load()
	if came == 0 {
		return 0
	}
	return max(0, time.Duration(now.UnixNano()-came)) // clocks may be set
}
