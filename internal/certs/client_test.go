package certs_test

import (
	"context"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"

	"github.com/weftserve/weft/internal/certs"
	"github.com/weftserve/weft/internal/weftest"
)

// TestTokenStaysOnThisMachine: a token is not sent in the clear to others.
func TestTokenStaysOnThisMachine(t *testing.T) {
	path := weftest.WriteFile(t, t.TempDir(), "token", []byte("secret\n"))
	for target, sent := range map[string]bool{
		"127.0.0.1:9000": true, "localhost:9000": true, "[::1]:9000": true, "unix:/run/weft.sock": true,
		"unix:///run/weft.sock": true, "unix-abstract:weft": true, "passthrough:///127.0.0.1:9000": true,
		"dns:///localhost:9000": true, "robot:9000": false, "10.0.0.1:9000": false, "dns:///robot:9000": false,
		"localhost.evil.example:9000": false, "127.0.0.1.evil.example:9000": false, "xds:///localhost:9000": false,
		"dns://10.0.0.1/localhost:9000": false, ":9000": false, "0.0.0.0:9000": false,
	} {
		_, err := (&certs.Client{TokenFile: path}).DialOptions(target)
		if (err == nil) != sent || err != nil && !strings.Contains(err.Error(), "in the clear") {
			t.Errorf("%s: %v", target, err)
		}
		if _, err := (&certs.Client{TokenFile: path, TLS: true}).DialOptions(target); err != nil {
			t.Errorf("%s over TLS: %v", target, err)
		}
	}
}

// TestToken: the token comes with each call, and files without one are told of.
func TestToken(t *testing.T) {
	dir := t.TempDir()
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "unix", filepath.Join(dir, "s"))
	if err != nil {
		t.Fatal(err)
	}
	got := make(chan []string, 1)
	g := grpc.NewServer(grpc.UnknownServiceHandler(func(any, grpc.ServerStream) error { return nil }),
		grpc.StreamInterceptor(func(_ any, s grpc.ServerStream, _ *grpc.StreamServerInfo, _ grpc.StreamHandler) error {
			md, _ := metadata.FromIncomingContext(s.Context())
			got <- md.Get("authorization")
			return context.Canceled
		}))
	go g.Serve(l)
	defer g.Stop()
	c := certs.Client{TokenFile: weftest.WriteFile(t, dir, "token", []byte("  abc.def\n"))}
	target := "unix:" + l.Addr().String()
	options, err := c.DialOptions(target)
	if err != nil {
		t.Fatal(err)
	}
	if err := check(t.Context(), target, options...); err == nil {
		t.Fatal("no error of the server")
	}
	if token := <-got; len(token) != 1 || token[0] != "Bearer abc.def" {
		t.Errorf("the server got %q", token)
	}
	for _, bad := range []string{"", " \n", "two words", "a\x00b", "ключ"} {
		c.TokenFile = weftest.WriteFile(t, dir, "token", []byte(bad))
		if _, err := c.DialOptions(target); err == nil || !strings.Contains(err.Error(), "holds no token") {
			t.Errorf("%q: %v", bad, err)
		}
	}
	if err := os.Remove(c.TokenFile); err != nil {
		t.Fatal(err)
	}
	if _, err := c.DialOptions(target); err == nil || !strings.Contains(err.Error(), "--token-file") {
		t.Errorf("no file: %v", err)
	}
}
