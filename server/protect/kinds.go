package protect

import (
	"context"
	"net"
	"sync"
	"time"

	"google.golang.org/grpc/credentials"
)

// connection remembers of which kind the latest requests of a connection were. Requests of another kind may be answered
// where these are not, and no header tells them apart: while kinds mix on a connection, nothing of it is refused.
type connection struct {
	mu    sync.Mutex
	kind  Kind
	of    *history  // of the kind; nil: no request has ended
	mixed time.Time // when the kind changed last
}

// unlike is for how long a connection counts as one that brings requests of several kinds.
const unlike = time.Minute

// only returns the kind of the connection's requests, and the history of that; nil if it is not known.
func (c *connection) only(now time.Time) (Kind, *history) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if now.Sub(c.mixed) < unlike {
		return Kind{}, nil
	}
	return c.kind, c.of
}

// brought notes that a request of a kind has ended, and returns the history of that.
func (c *connection) brought(now time.Time, k Kind, history func(Kind) *history) *history {
	c.mu.Lock()
	defer c.mu.Unlock()
	if k != c.kind || c.of == nil {
		if c.of != nil {
			c.mixed = now
		}
		c.kind, c.of = k, history(k)
	}
	return c.of
}

// ThrottleCredentials returns those of a server so that connections remember what their requests were.
func ThrottleCredentials(of credentials.TransportCredentials) credentials.TransportCredentials {
	return Then(of, func(secured, _ net.Conn, _ credentials.AuthInfo) (net.Conn, any, error) {
		return secured, &connection{}, nil
	})
}

func connectionOf(ctx context.Context) *connection {
	c, _ := Of[*connection](ctx)
	return c
}
