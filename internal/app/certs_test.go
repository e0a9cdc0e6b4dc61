package app

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"strings"
	"syscall"
	"testing"

	"google.golang.org/grpc"
	healthgrpc "google.golang.org/grpc/health/grpc_health_v1"

	"github.com/weftserve/weft/internal/certs"
	"github.com/weftserve/weft/internal/config"
	"github.com/weftserve/weft/internal/weftest"
	weftv1 "github.com/weftserve/weft/proto/gen/weft/v1"
)

// secured is a server with TLS on each address.
type secured struct {
	grpc, admin, http string // addresses
	client            certs.Client
	settings          *tls.Config // of an HTTP client that has a certificate
	files             certs.Files
	log               weftest.Log
	signals           chan os.Signal
	hangups           chan os.Signal
}

// serveSecured serves a model over mTLS, and stops at the end of the test.
func serveSecured(t *testing.T) (*secured, *weftest.Authority) {
	t.Helper()
	repository, dir := t.TempDir(), t.TempDir()
	weftest.AddVersion(t, repository, "walker", 1)
	weftest.SetManifest(t, repository, "walker", quick)
	ca := weftest.NewAuthority(t, "test")
	cert, key := ca.Issue(t, nil)
	s := &secured{signals: make(chan os.Signal, 1), hangups: make(chan os.Signal, 1)}
	s.files = certs.Files{
		Cert: weftest.WriteFile(t, dir, "cert.pem", cert), Key: weftest.WriteFile(t, dir, "key.pem", key),
		ClientCA: weftest.WriteFile(t, dir, "ca.pem", ca.PEM()),
	}
	cert, key = ca.Issue(t, nil)
	s.client = certs.Client{
		CA: s.files.ClientCA, Cert: weftest.WriteFile(t, dir, "c.pem", cert), Key: weftest.WriteFile(t, dir, "k.pem", key),
	}
	own, err := tls.X509KeyPair(cert, key)
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AddCert(ca.Cert)
	s.settings = &tls.Config{RootCAs: roots, Certificates: []tls.Certificate{own}}
	a := &App{Settings: Settings{Repositories: []string{repository}, Server: config.DefaultServer()}, hangups: s.hangups}
	a.Listen, a.HTTP, a.AdminListen = "127.0.0.1:0", "127.0.0.1:0", "127.0.0.1:0"
	a.LameDuck = 0
	a.TLSCert, a.TLSKey, a.TLSClientCA = s.files.Cert, s.files.Key, s.files.ClientCA
	ended := make(chan error, 1)
	go func() { ended <- a.serve(s.signals, slog.New(&s.log)) }()
	t.Cleanup(func() {
		s.signals <- syscall.SIGTERM
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	weftest.Until(t, "the server is ready", func() bool { return len(s.log.Event("ready")) > 0 })
	for name, to := range map[string]*string{"grpc": &s.grpc, "admin": &s.admin, "http": &s.http} {
		*to = weftest.Attr(s.log.Event(name + "_listening")[0], name).String()
	}
	return s, ca
}

func dialTLS(t *testing.T, address string, over *certs.Client) *grpc.ClientConn {
	t.Helper()
	options, err := over.DialOptions(address)
	if err != nil {
		t.Fatal(err)
	}
	conn, err := grpc.NewClient(address, options...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return conn
}

// get asks the HTTP port over a connection of its own.
func (s *secured) get(t *testing.T, path, host string, settings *tls.Config) (status int, body string) {
	t.Helper()
	client := http.Client{Transport: &http.Transport{TLSClientConfig: settings, DisableKeepAlives: true}}
	q, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://"+s.http+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	q.Host = host
	answer, err := client.Do(q)
	if err != nil {
		return 0, err.Error()
	}
	defer answer.Body.Close()
	page, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	return answer.StatusCode, string(page)
}

// TestSecured: each address speaks TLS, asks for a certificate, and has a word for what is wrong.
func TestSecured(t *testing.T) {
	s, ca := serveSecured(t)
	conn := dialTLS(t, s.grpc, &s.client)
	if _, err := weftv1.NewPredictionServiceClient(conn).Predict(t.Context(), weftest.Request("walker", 1)); err != nil {
		t.Errorf("a prediction: %v", err)
	}
	if _, err := weftv1.NewModelServiceClient(dialTLS(t, s.admin, &s.client)).ListModels(t.Context(),
		&weftv1.ListModelsRequest{}); err != nil {
		t.Errorf("the admin API: %v", err)
	}
	stranger := &certs.Client{CA: s.client.CA}
	for _, address := range []string{s.grpc, s.admin} {
		_, err := weftv1.NewModelServiceClient(dialTLS(t, address, stranger)).ListModels(t.Context(),
			&weftv1.ListModelsRequest{})
		if err == nil || !strings.Contains(err.Error(), "certificate required") {
			t.Errorf("without a certificate: %v", err)
		}
	}
	nobody := &tls.Config{RootCAs: s.settings.RootCAs}
	foreign := s.settings.Clone()
	other, err := tls.X509KeyPair(weftest.NewAuthority(t, "other").Issue(t, nil))
	if err != nil {
		t.Fatal(err)
	}
	foreign.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return &other, nil }
	for _, c := range []struct {
		path, host string
		settings   *tls.Config
		status     int
		want       string
	}{
		{"/healthz", "", nobody, 200, "alive"},
		{"/readyz", "", nobody, 200, "ready"},
		{"/metrics", "", nobody, 401, "--cert"},
		{"/metrics", "", s.settings, 200, "weft_certificate_expiry_seconds{role=\"client_ca\"}"},
		{"/metrics", "evil.example", s.settings, 403, "http-hosts"},
		{"/healthz", "evil.example:9001", nobody, 403, "http-hosts"},
		{"/healthz", "", foreign, 0, "unknown certificate authority"},
	} {
		if status, body := s.get(t, c.path, c.host, c.settings); status != c.status || !strings.Contains(body, c.want) {
			t.Errorf("%s as %q: %d %.200q, want %d %q", c.path, c.host, status, body, c.status, c.want)
		}
	}
	weftest.Until(t, "HTTP tells of a failed handshake", func() bool {
		return len(s.log.Lines("listener=http")) > 0
	})
	if lines := s.log.Lines("listener=http"); !strings.Contains(lines[0], "reason=unknown_ca") {
		t.Errorf("logged %q", lines)
	}

	// SIGHUP takes new files over, and connections stay.
	cert, key := ca.Issue(t, nil)
	for path, data := range map[string][]byte{s.files.Cert: cert, s.files.Key: key} {
		if err := os.WriteFile(path, data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	s.hangups <- syscall.SIGHUP
	weftest.Until(t, "the certificates are reloaded", func() bool { return len(s.log.Event("certificates_reloaded")) > 0 })
	if _, err := weftv1.NewPredictionServiceClient(conn).Predict(t.Context(), weftest.Request("walker", 1)); err != nil {
		t.Errorf("a kept connection: %v", err)
	}
	if _, err := healthgrpc.NewHealthClient(dialTLS(t, s.grpc, &s.client)).Check(t.Context(),
		&healthgrpc.HealthCheckRequest{}); err != nil {
		t.Errorf("a new connection: %v", err)
	}
}

// TestLongHeader: what no tool of an operator sends is refused before it is read.
func TestLongHeader(t *testing.T) {
	r := serve(t, map[string]string{"walker": quick})
	address := strings.TrimPrefix(r.http, "http://")
	for name, c := range map[string]struct{ request, want string }{
		"a long header": {
			"GET /healthz HTTP/1.1\r\nHost: localhost\r\nX: " + strings.Repeat("x", 64<<10) + "\r\n\r\n",
			"431 Request Header Fields Too Large",
		},
		"a body": {
			"GET /healthz HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000000000\r\n\r\n", "413 Request Entity Too Large",
		},
		"rebinding": {"GET /metrics HTTP/1.1\r\nHost: evil.example:9001\r\n\r\n", "403 Forbidden"},
		"CORS": {
			"GET /metrics HTTP/1.1\r\nHost: localhost\r\nOrigin: http://evil.example\r\n\r\n", "403 Forbidden",
		},
		"good": {"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n", "200 OK"},
	} {
		conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		_, _ = conn.Write([]byte(c.request)) // it may be closed before it was read
		answer := make([]byte, 200)
		n, err := io.ReadAtLeast(conn, answer, 40)
		if !strings.Contains(string(answer[:n]), c.want) {
			t.Errorf("%s: %q, %v, want %s", name, answer[:n], err, c.want)
		}
		conn.Close()
	}
}

// TestListenUnix: a socket is of the user and the group, and that of a dead server goes.
func TestListenUnix(t *testing.T) {
	path := t.TempDir() + "/s"
	stale, err := (&net.ListenConfig{}).Listen(t.Context(), "unix", path)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := listen(t.Context(), "listen", "unix:"+path); err == nil ||
		!strings.Contains(err.Error(), "another server listens there; choose another path with --listen") {
		t.Errorf("a server lives: %v", err)
	}
	stale.(*net.UnixListener).SetUnlinkOnClose(false)
	stale.Close()
	l, err := listen(context.Background(), "listen", "unix:"+path)
	if err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(path)
	if err != nil || info.Mode().Perm() != 0o660 || addressOf(l) != fmt.Sprintf("unix:%s", path) {
		t.Errorf("%v, %v, %s", info, err, addressOf(l))
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(path); err == nil {
		t.Error("the socket stays")
	}
	if err := os.WriteFile(path, []byte("data"), 0o600); err != nil {
		t.Fatal(err)
	}
	_, err = listen(t.Context(), "listen", "unix:"+path)
	if err == nil || !strings.Contains(err.Error(), "is no socket") {
		t.Errorf("a file: %v", err)
	}
}

// TestHereOf: the address that is printed is one that the certificate of --tls-dev names.
func TestHereOf(t *testing.T) {
	for address, want := range map[string]string{
		"[::]:9000": "localhost:9000", "0.0.0.0:9000": "localhost:9000", "10.0.0.5:1": "localhost:1",
		"127.0.0.1:9000": "127.0.0.1:9000", "[::1]:9": "[::1]:9", "unix:/run/weft.sock": "unix:/run/weft.sock",
	} {
		if got := hereOf(address); got != want {
			t.Errorf("%s is reached by %s, want %s", address, got, want)
		}
	}
}
