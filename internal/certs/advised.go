package certs

import (
	"context"
	"net"
	"sync/atomic"
	"time"

	"google.golang.org/grpc/credentials"
)

// advised are credentials whose errors say what the server had to say; [Advice] says what to do.
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

// verdict is a connection that tells why a server has refused it. In TLS 1.3 the end of a caller's handshake comes
// before the server has judged the caller: the next write may find the connection closed, and what the server said
// before it closed is still to be read.
type verdict struct {
	net.Conn

	spoken atomic.Bool // the server goes on: it has accepted the caller
}

// verdictWithin is how long the reason for a closed connection is waited for.
const verdictWithin = time.Second

// Read implements net.Conn.
func (v *verdict) Read(into []byte) (int, error) {
	n, err := v.Conn.Read(into)
	if n > 0 && !v.spoken.Load() {
		v.spoken.Store(true)
	}
	return n, err
}

// Write implements net.Conn.
func (v *verdict) Write(data []byte) (int, error) {
	n, err := v.Conn.Write(data)
	if err == nil || v.spoken.Load() || v.SetReadDeadline(time.Now().Add(verdictWithin)) != nil {
		return n, err
	}
	if _, why := v.Conn.Read(make([]byte, 1)); why != nil {
		err = why
	}
	return n, err
}
