package certs

import (
	"context"
	"net"
	"sync/atomic"
	"time"

	"google.golang.org/grpc/credentials"
)

// advised are the credentials of a client whose errors hold what the server said before it closed the connection.
// [Advice] finds what to do in that text.
type advised struct {
	credentials.TransportCredentials
}

// ClientHandshake implements credentials.TransportCredentials.
func (a *advised) ClientHandshake(ctx context.Context, authority string, raw net.Conn,
) (net.Conn, credentials.AuthInfo, error) {
	c, info, err := a.TransportCredentials.ClientHandshake(ctx, authority, raw)
	if err != nil {
		return c, info, err
	}
	return &verdict{Conn: c}, info, nil
}

// Clone implements credentials.TransportCredentials.
func (a *advised) Clone() credentials.TransportCredentials {
	return &advised{a.TransportCredentials.Clone()}
}

// verdict is a connection that tells why a server refused it. In TLS 1.3 the client's handshake ends before the server
// has verified the client: a later write may find the connection closed, while the alert that says why is still to be
// read.
type verdict struct {
	net.Conn

	// Reads and writes are concurrent, as gRPC does them.
	spoken atomic.Bool // the server goes on: it has accepted the caller
}

// verdictWithin is how long a failed write waits for the server's reason. It was sent before the connection was closed.
const verdictWithin = time.Second

// Read implements net.Conn.
func (v *verdict) Read(into []byte) (int, error) {
	n, err := v.Conn.Read(into)
	if n > 0 && !v.spoken.Load() {
		v.spoken.Store(true)
	}
	return n, err
}

// Write implements net.Conn. If the first write fails, its error is replaced by the server's reason. The connection is
// lost then, so that neither the byte that is read nor the deadline matters to anybody else.
func (v *verdict) Write(data []byte) (int, error) {
	n, err := v.Conn.Write(data)
	// Once the server has sent anything it has accepted the caller; a later failure has other causes.
	if err == nil || v.spoken.Load() || v.SetReadDeadline(time.Now().Add(verdictWithin)) != nil {
		return n, err
	}
	if _, why := v.Conn.Read(make([]byte, 1)); why != nil {
		err = why
	}
	return n, err
}
