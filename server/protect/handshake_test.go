package protect_test

import (
	"context"
	"errors"
	"net"
	"testing"

	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/peer"

	"github.com/weftserve/weft/server/protect"
)

// TestKept: each package finds what it keeps of a connection, and that of the credentials is not hidden.
func TestKept(t *testing.T) {
	type first struct{ net.Conn }
	type second struct{ before bool }
	type third struct{}
	keep := func(what func(net.Conn) any) func(_, _ net.Conn, _ credentials.AuthInfo) (net.Conn, any, error) {
		return func(c, _ net.Conn, _ credentials.AuthInfo) (net.Conn, any, error) { return c, what(c), nil }
	}
	c := protect.Then(insecure.NewCredentials(), keep(func(c net.Conn) any { return &first{c} }))
	c = protect.Then(c, keep(func(net.Conn) any { return &second{true} })).Clone()
	theirs, ours := net.Pipe()
	defer theirs.Close()
	defer ours.Close()
	_, info, err := c.ServerHandshake(ours)
	if err != nil {
		t.Fatal(err)
	}
	ctx := peer.NewContext(context.Background(), &peer.Peer{AuthInfo: info})
	if f, ok := protect.Of[*first](ctx); !ok || f.Conn != ours {
		t.Errorf("the first finds %v", f)
	}
	if s, ok := protect.Of[*second](ctx); !ok || !s.before {
		t.Errorf("the second finds %v", s)
	}
	if _, ok := protect.Of[*third](ctx); ok {
		t.Error("what nobody keeps is found")
	}
	if _, ok := protect.Of[*first](context.Background()); ok {
		t.Error("found without a connection")
	}
	if got := protect.Secured(info).AuthType(); got != "insecure" {
		t.Errorf("the credentials say %q", got)
	}
}

// TestRefused: a connection that a package refuses is not served.
func TestRefused(t *testing.T) {
	refused := errors.New("refused")
	c := protect.Then(insecure.NewCredentials(),
		func(net.Conn, net.Conn, credentials.AuthInfo) (net.Conn, any, error) { return nil, nil, refused })
	theirs, ours := net.Pipe()
	defer theirs.Close()
	defer ours.Close()
	if _, _, err := c.ServerHandshake(ours); !errors.Is(err, refused) {
		t.Errorf("the error is %v", err)
	}
}
