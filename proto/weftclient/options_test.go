package weftclient_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"net"
	"path/filepath"
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/test/bufconn"

	"github.com/weftserve/weft/internal/weftest"
	weftv1 "github.com/weftserve/weft/proto/gen/weft/v1"
	"github.com/weftserve/weft/proto/weftclient"
)

// gate is a server that lets in who has the token.
type gate struct {
	weftv1.UnimplementedPredictionServiceServer
}

func (gate) Predict(ctx context.Context, _ *weftv1.PredictRequest) (*weftv1.PredictResponse, error) {
	sent, _ := metadata.FromIncomingContext(ctx)
	if strings.Join(sent.Get("authorization"), ",") != "Bearer secret" {
		return nil, status.Errorf(codes.Unauthenticated, "authorization: %q", sent.Get("authorization"))
	}
	return &weftv1.PredictResponse{}, nil
}

func serveGate(t *testing.T, listener net.Listener, options ...grpc.ServerOption) {
	t.Helper()
	g := grpc.NewServer(options...)
	weftv1.RegisterPredictionServiceServer(g, gate{})
	weftest.ServeOn(t, g, listener)
}

func listen(t *testing.T, network, address string) net.Listener {
	t.Helper()
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), network, address)
	if err != nil {
		t.Fatal(err)
	}
	return listener
}

// askGate returns the error of a call.
func askGate(t *testing.T, target string, options ...weftclient.Option) error {
	t.Helper()
	client, err := weftclient.New(target, append(options, weftclient.WithAttempts(1))...)
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	_, err = client.Predict(t.Context(), &weftclient.Request{})
	return err
}

func TestTokenStaysOnThisMachine(t *testing.T) {
	token := weftclient.WithToken("secret")
	tcp, far := listen(t, "tcp", "127.0.0.1:0"), bufconn.Listen(1<<16)
	unix := listen(t, "unix", filepath.Join(t.TempDir(), "weft.sock"))
	serveGate(t, tcp)
	serveGate(t, unix)
	serveGate(t, far)
	for _, target := range []string{tcp.Addr().String(), "unix:" + unix.Addr().String()} {
		if err := askGate(t, target, token); err != nil {
			t.Errorf("%s: %v", target, err)
		}
	}
	if err := askGate(t, tcp.Addr().String()); status.Code(err) != codes.Unauthenticated {
		t.Errorf("without a token: %v", err)
	}
	err := askGate(t, "passthrough:///robot:9000", token, over(far))
	if status.Code(err) != codes.Unavailable || !strings.Contains(err.Error(), "local credentials") {
		t.Errorf("to what is not on this machine: %v", err)
	}
}

func TestTLS(t *testing.T) {
	authority := weftest.NewAuthority(t, "robots")
	cert, key := authority.Issue(t, func(c *x509.Certificate) { c.DNSNames = []string{"robot"} })
	pair, err := tls.X509KeyPair(cert, key)
	if err != nil {
		t.Fatal(err)
	}
	listener := bufconn.Listen(1 << 16)
	serveGate(t, listener, grpc.Creds(credentials.NewServerTLSFromCert(&pair)))
	trusted := x509.NewCertPool()
	trusted.AppendCertsFromPEM(authority.PEM())
	secure := weftclient.WithTLS(&tls.Config{RootCAs: trusted, ServerName: "robot", MinVersion: tls.VersionTLS13})
	if err := askGate(t, "passthrough:///robot:9000", weftclient.WithToken("secret"), secure, over(listener)); err != nil {
		t.Error(err)
	}
	if err := askGate(t, "passthrough:///robot:9000", over(listener)); status.Code(err) != codes.Unavailable {
		t.Errorf("in the clear: %v", err)
	}
	err = askGate(t, "passthrough:///robot:9000", weftclient.WithTLS(nil), over(listener))
	if err == nil || !strings.Contains(err.Error(), "unknown authority") {
		t.Errorf("of an unknown authority: %v", err)
	}
}

func TestMaxMessageBytes(t *testing.T) {
	q := &weftclient.Request{
		Model: weftclient.Model("uint8/1"), Inputs: weftclient.Tensors{"x": weftclient.FromSlice(make([]uint8, 5<<20))},
	}
	if _, err := dial(t, nil).Predict(t.Context(), q); err != nil {
		t.Error(err)
	}
	_, err := dial(t, nil, weftclient.WithMaxMessageBytes(5<<20)).Predict(t.Context(), q)
	if status.Code(err) != codes.ResourceExhausted {
		t.Errorf("an answer that is too large: %v", err)
	}
}

func TestNewRefuses(t *testing.T) {
	for want, tt := range map[string]struct {
		target string
		option weftclient.Option
	}{
		"WithAttempts(0): expected at least 1":         {"127.0.0.1:9000", weftclient.WithAttempts(0)},
		"WithMaxMessageBytes(-1): expected at least 1": {"127.0.0.1:9000", weftclient.WithMaxMessageBytes(-1)},
		`target "\x00": `:                              {"\x00", weftclient.WithAttempts(1)},
	} {
		if _, err := weftclient.New(tt.target, tt.option); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want ...%s...", err, want)
		}
	}
}
