package certs_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"google.golang.org/grpc"
	healthgrpc "google.golang.org/grpc/health/grpc_health_v1"

	"github.com/weftserve/weft/internal/weftest"
)

// serial returns which certificate the server shows, and fails if a handshake does.
func (s *served) serial(ctx context.Context, c *tls.Config) (string, error) {
	conn, err := shake(ctx, s.address, c)
	if err != nil {
		return "", err
	}
	defer conn.Close()
	return conn.ConnectionState().PeerCertificates[0].SerialNumber.String(), nil
}

// caller returns the settings of a caller that has a certificate of an authority.
func caller(t testing.TB, trusts, of *weftest.Authority) *tls.Config {
	t.Helper()
	own, err := tls.X509KeyPair(of.Issue(t, nil))
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AddCert(trusts.Cert)
	return &tls.Config{
		RootCAs: roots, NextProtos: []string{"h2"},
		// else it shows none where the server does not name its CA
		GetClientCertificate: func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return &own, nil },
	}
}

func serialOf(t testing.TB, f files) string {
	t.Helper()
	pair, err := tls.X509KeyPair(f.cert, f.key)
	if err != nil {
		t.Fatal(err)
	}
	return pair.Leaf.SerialNumber.String()
}

// TestRotation: certificates are replaced while callers connect all the time, and none fails. A connection that is kept
// lives through it.
func TestRotation(t *testing.T) {
	rotations, handshakes := weftest.Times(15, 100), int64(weftest.Times(1_500, 10_000))
	if testing.Short() {
		rotations, handshakes = 5, 300
	}
	ca, callers := weftest.NewAuthority(t, "servers"), weftest.NewAuthority(t, "callers")
	first := secret(t, ca, callers)
	s := serve(t, first, nil)
	s.follow()
	cert, key := callers.Issue(t, nil)
	options, err := client(t, ca, cert, key).DialOptions(s.address)
	if err != nil {
		t.Fatal(err)
	}
	kept, err := grpc.NewClient(s.address, options...)
	if err != nil {
		t.Fatal(err)
	}
	defer kept.Close()
	watch, err := healthgrpc.NewHealthClient(kept).Watch(t.Context(), &healthgrpc.HealthCheckRequest{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := watch.Recv(); err != nil {
		t.Fatal(err)
	}
	asks := caller(t, ca, callers)
	var done atomic.Int64
	var seen sync.Map
	var wg sync.WaitGroup
	rotated := make(chan struct{})
	for range 4 {
		wg.Go(func() {
			for ended := false; !ended || done.Load() < handshakes; {
				serial, err := s.serial(t.Context(), asks)
				if err != nil {
					t.Errorf("after %d handshakes: %v", done.Load(), err)
					return
				}
				seen.Store(serial, true)
				done.Add(1)
				select {
				case <-rotated:
					ended = true
				default:
				}
			}
		})
	}
	for i := range rotations {
		next := secret(t, ca, callers)
		s.put(next)
		want := serialOf(t, next)
		weftest.Until(t, fmt.Sprintf("rotation %d is in force", i), func() bool {
			_, is := seen.Load(want)
			return is || t.Failed()
		})
	}
	close(rotated)
	wg.Wait()
	n := 0
	seen.Range(func(any, any) bool { n++; return true })
	if n < rotations {
		t.Errorf("callers have seen %d certificates of %d", n, rotations)
	}
	if failed := s.keeper.Failures(); len(failed) > 0 {
		t.Errorf("the server has counted failures: %v", failed)
	}
	if rejected := s.log.Lines("certificates_rejected"); len(rejected) > 0 {
		t.Errorf("logged %q", rejected)
	}
	if _, err := healthgrpc.NewHealthClient(kept).Check(t.Context(), &healthgrpc.HealthCheckRequest{}); err != nil {
		t.Errorf("the kept connection: %v", err)
	}
	t.Logf("%d handshakes, %d certificates", done.Load(), n)
}

// TestRevokedByRemoval: whose CA was taken out cannot connect any more, whatever sessions it remembers. Both ends know.
func TestRevokedByRemoval(t *testing.T) {
	ca, out, stays := weftest.NewAuthority(t, "servers"), weftest.NewAuthority(t, "out"), weftest.NewAuthority(t, "stays")
	f := secret(t, ca, out, stays)
	s := serve(t, f, nil)
	revoked := caller(t, ca, out)
	revoked.ClientSessionCache = tls.NewLRUClientSessionCache(10)
	for range 2 {
		conn, err := shake(t.Context(), s.address, revoked)
		if err != nil {
			t.Fatal(err)
		}
		if conn.ConnectionState().DidResume {
			t.Error("a session was resumed")
		}
		conn.Close()
	}
	s.put(files{f.cert, f.key, stays.PEM()})
	s.keeper.Reload()
	if _, err := shake(t.Context(), s.address, revoked); err == nil ||
		!strings.Contains(err.Error(), "unknown certificate authority") {
		t.Errorf("the caller has %v", err)
	}
	weftest.Until(t, "the server counts it", func() bool { return s.keeper.Failures()["unknown_ca"] == 1 })
	if len(s.log.Lines("reason=unknown_ca")) != 1 || len(s.log.Lines("remedy=add the CA")) != 1 {
		t.Errorf("logged %q", s.log.Lines(""))
	}
	if _, err := s.serial(t.Context(), caller(t, ca, stays)); err != nil {
		t.Errorf("another caller: %v", err)
	}
}

// TestFaultyReload: files that are faulty change nothing, and are told of once.
func TestFaultyReload(t *testing.T) {
	ca := weftest.NewAuthority(t, "servers")
	f := secret(t, ca)
	_, other := ca.Issue(t, nil)
	s := serve(t, f, nil)
	s.follow()
	roots := caller(t, ca, ca)
	s.put(files{f.cert, other, nil})
	weftest.Until(t, "the fault is told", func() bool { return len(s.log.Event("certificates_rejected")) == 1 })
	if s.log.Lines("--tls-key") == nil || s.log.Lines("does not go with the certificate") == nil {
		t.Errorf("logged %q", s.log.Lines(""))
	}
	if serial, err := s.serial(t.Context(), roots); err != nil || serial != serialOf(t, f) {
		t.Errorf("serves %s, %v", serial, err)
	}
	s.keeper.Reload() // SIGHUP asks for a word
	if n := len(s.log.Event("certificates_rejected")); n != 2 {
		t.Errorf("%d lines after SIGHUP", n)
	}
	mended := secret(t, ca)
	s.put(mended)
	weftest.Until(t, "the mended files serve", func() bool {
		serial, err := s.serial(t.Context(), roots)
		return err == nil && serial == serialOf(t, mended)
	})
}
