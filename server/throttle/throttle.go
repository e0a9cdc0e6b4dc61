package throttle

import (
	"context"
	"fmt"
	"net"
	"time"

	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/tap"
)

// Error says that a request was refused unread.
type Error struct {
	Kind        // of the connection's latest requests
	Cause error // why the latest of them was not answered
}

func (e *Error) Error() string {
	return fmt.Sprintf("most of this connection's latest requests for the model could not be answered, and this one was "+
		"refused unread (of the latest: %v)", e.Cause)
}

// Throttle refuses calls of one server. Its fields are fixed for its life.
type Throttle struct {
	// Waits returns by how much executions take longer because they wait for a processor. Only while they do is anything
	// refused here: requests that are refused later cost nobody anything else.
	Waits func() float64
	// Method is the full name of the method, of one request each, whose calls are refused.
	Method string
	// Status returns the error with which calls end.
	Status func(*Error) error
	// Refused is called for each call that was refused.
	Refused func(Kind)
}

// Tap is to be called for the header of each call, as a tap.ServerInHandle.
func (t *Throttle) Tap(ctx context.Context, call *tap.Info) (context.Context, error) {
	h := historyOf(ctx)
	if h == nil || call.FullMethodName != t.Method || t.Waits() < scarce {
		return ctx, nil
	}
	now := time.Now()
	deadline, _ := ctx.Deadline()
	k, err := h.refuse(now, within(now, deadline), t.Status)
	if err != nil {
		t.Refused(k)
	}
	return ctx, err
}

// Answered notes that the request of a call that began then was answered, or that it was not, by the cause, for want of
// capacity.
func Answered(ctx context.Context, began time.Time, k Kind, cause error) {
	if h := historyOf(ctx); h != nil {
		deadline, _ := ctx.Deadline()
		h.ended(time.Now(), k, within(began, deadline), cause)
	}
}

// scarce is the factor from which on executions count as waiting for a processor.
const scarce = 1.1

// never is the time, in seconds, in which the answer to a call without a deadline is wanted.
const never = 1e6

// within returns the time from now to the deadline in seconds.
func within(now, deadline time.Time) float64 {
	if deadline.IsZero() {
		return never
	}
	return deadline.Sub(now).Seconds()
}

// Credentials returns those of a server so that connections remember what became of their requests. (A net.Conn of our
// own would cost gRPC's ways with TCP.)
func Credentials(of credentials.TransportCredentials) credentials.TransportCredentials {
	return remembering{of}
}

type remembering struct {
	credentials.TransportCredentials
}

// ServerHandshake implements credentials.TransportCredentials.
func (r remembering) ServerHandshake(c net.Conn) (net.Conn, credentials.AuthInfo, error) {
	c, info, err := r.TransportCredentials.ServerHandshake(c)
	if err != nil {
		return nil, nil, err
	}
	return c, &remembered{AuthInfo: info}, nil
}

// Clone implements credentials.TransportCredentials.
func (r remembering) Clone() credentials.TransportCredentials {
	return remembering{r.TransportCredentials.Clone()}
}

// remembered is what gRPC tells a call of its connection.
type remembered struct {
	credentials.AuthInfo
	history
}

func historyOf(ctx context.Context) *history {
	if p, ok := peer.FromContext(ctx); ok {
		if r, ok := p.AuthInfo.(*remembered); ok {
			return &r.history
		}
	}
	return nil
}
