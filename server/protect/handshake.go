package protect

import (
	"context"
	"net"

	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/peer"
)

// Then returns credentials of a server that have after see each connection once it was secured, if it was. gRPC goes on
// with the connection that after returns, and hands what its handshake has made to each of its calls: they find what
// after keeps by Of. The raw connection is the one that was
// accepted; info is what the credentials say of the caller, such as a credentials.TLSInfo. An error closes the
// connection.
func Then(c credentials.TransportCredentials,
	after func(secured, raw net.Conn, info credentials.AuthInfo) (goOn net.Conn, kept any, err error),
) credentials.TransportCredentials {
	return then{c, after}
}

type then struct {
	credentials.TransportCredentials

	after func(secured, raw net.Conn, info credentials.AuthInfo) (net.Conn, any, error)
}

// ServerHandshake implements credentials.TransportCredentials.
func (t then) ServerHandshake(raw net.Conn) (net.Conn, credentials.AuthInfo, error) {
	secured, info, err := t.TransportCredentials.ServerHandshake(raw)
	if err != nil {
		return nil, nil, err
	}
	c, kept, err := t.after(secured, raw, Secured(info))
	if err != nil {
		return nil, nil, err
	}
	return c, &keeping{info, kept}, nil
}

// Clone implements credentials.TransportCredentials.
func (t then) Clone() credentials.TransportCredentials {
	return then{t.TransportCredentials.Clone(), t.after}
}

// keeping is what gRPC tells a call of its connection.
type keeping struct {
	credentials.AuthInfo

	kept any
}

// Of returns what is kept of type T of the connection of a call.
func Of[T any](ctx context.Context) (kept T, ok bool) {
	p, ok := peer.FromContext(ctx)
	if !ok {
		return kept, false
	}
	for info := p.AuthInfo; ; {
		k, is := info.(*keeping)
		if !is {
			return kept, false
		}
		if t, is := k.kept.(T); is {
			return t, true
		}
		info = k.AuthInfo
	}
}

// Secured returns what the credentials themselves said of the caller.
func Secured(info credentials.AuthInfo) credentials.AuthInfo {
	for {
		k, is := info.(*keeping)
		if !is {
			return info
		}
		info = k.AuthInfo
	}
}
