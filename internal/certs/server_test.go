package certs_test

import (
	"context"
	"crypto/tls"
	"log/slog"
	"os"
	"path/filepath"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/health"
	healthgrpc "google.golang.org/grpc/health/grpc_health_v1"

	"github.com/weftserve/weft/internal/certs"
	"github.com/weftserve/weft/internal/weftest"
)

// served is a gRPC server with certificates from files, as a Kubernetes secret has them: links to a directory that is
// replaced as a whole.
type served struct {
	t       testing.TB
	dir     string
	address string
	keeper  *certs.Keeper
	log     weftest.Log
	n       int
}

// files are the contents of a secret.
type files struct{ cert, key, ca []byte }

// serve serves until the end of the test.
func serve(t testing.TB, f files, adjust func(*certs.Config)) *served {
	t.Helper()
	s := &served{t: t, dir: t.TempDir()}
	s.put(f)
	for _, name := range []string{"tls.crt", "tls.key", "ca.crt"} {
		if err := os.Symlink(filepath.Join("..data", name), filepath.Join(s.dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	cfg := certs.Config{Files: s.files(), Log: slog.New(&s.log)}
	if f.ca == nil {
		cfg.ClientCA = ""
	}
	if adjust != nil {
		adjust(&cfg)
	}
	var err error
	if s.keeper, err = certs.Open(t.Context(), cfg); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.keeper.Close(); err != nil {
			t.Error(err)
		}
	})
	g := grpc.NewServer(grpc.Creds(s.keeper.Credentials("listen")))
	healthgrpc.RegisterHealthServer(g, health.NewServer())
	s.address = weftest.Serve(t, g)
	return s
}

// follow replaces the certificates when the files change, until the end of the test.
func (s *served) follow() {
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- s.keeper.Run(ctx) }()
	s.t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			s.t.Error(err)
		}
	})
}

func (s *served) files() certs.Files {
	return certs.Files{
		Cert: filepath.Join(s.dir, "tls.crt"), Key: filepath.Join(s.dir, "tls.key"),
		ClientCA: filepath.Join(s.dir, "ca.crt"),
	}
}

// put replaces the files at once.
func (s *served) put(f files) {
	s.t.Helper()
	s.n++
	data, err := os.MkdirTemp(s.dir, "..version-")
	if err != nil {
		s.t.Fatal(err)
	}
	weftest.WriteFile(s.t, data, "tls.crt", f.cert)
	weftest.WriteFile(s.t, data, "tls.key", f.key)
	weftest.WriteFile(s.t, data, "ca.crt", f.ca)
	fresh := filepath.Join(s.dir, "..data_tmp")
	if err := os.Symlink(filepath.Base(data), fresh); err != nil {
		s.t.Fatal(err)
	}
	if err := os.Rename(fresh, filepath.Join(s.dir, "..data")); err != nil {
		s.t.Fatal(err)
	}
}

// call asks the server once, over a connection of its own.
func (s *served) call(ctx context.Context, c *certs.Client) error {
	options, err := c.DialOptions(s.address)
	if err != nil {
		return err
	}
	return check(ctx, s.address, options...)
}

func check(ctx context.Context, address string, options ...grpc.DialOption) error {
	conn, err := grpc.NewClient(address, options...)
	if err != nil {
		return err
	}
	defer conn.Close()
	_, err = healthgrpc.NewHealthClient(conn).Check(ctx, &healthgrpc.HealthCheckRequest{})
	return err
}

// shake makes a handshake, and reads what the server says to that: a server of TLS 1.3 refuses a caller only after the
// caller's end of the handshake.
func shake(ctx context.Context, address string, c *tls.Config) (*tls.Conn, error) {
	conn, err := (&tls.Dialer{Config: c}).DialContext(ctx, "tcp", address)
	if err != nil {
		return nil, err
	}
	if _, err := conn.Read(make([]byte, 1)); err != nil { // the settings of HTTP/2
		conn.Close()
		return nil, err
	}
	return conn.(*tls.Conn), nil
}

// client writes the files of a client, and returns its flags.
func client(t testing.TB, trusts *weftest.Authority, cert, key []byte) *certs.Client {
	t.Helper()
	dir := t.TempDir()
	c := &certs.Client{CA: weftest.WriteFile(t, dir, "ca.pem", trusts.PEM())}
	if cert != nil {
		c.Cert, c.Key = weftest.WriteFile(t, dir, "c.pem", cert), weftest.WriteFile(t, dir, "k.pem", key)
	}
	return c
}

// secret returns the files of a server that trusts callers of the CAs.
func secret(t testing.TB, of *weftest.Authority, callers ...*weftest.Authority) files {
	t.Helper()
	f := files{}
	f.cert, f.key = of.Issue(t, nil)
	for _, ca := range callers {
		f.ca = append(f.ca, ca.PEM()...)
	}
	return f
}
