package certs_test

import (
	"crypto/tls"
	"crypto/x509"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/weftserve/weft/internal/certs"
	"github.com/weftserve/weft/internal/weftest"
)

// TestRefused: each way for a handshake to fail has its clear error at both ends.
func TestRefused(t *testing.T) {
	ca, callers, other := weftest.NewAuthority(t, "servers"), weftest.NewAuthority(t, "callers"),
		weftest.NewAuthority(t, "strangers")
	s := serve(t, secret(t, ca, callers), nil)
	issued := func(of *weftest.Authority, adjust func(*x509.Certificate)) *certs.Client {
		cert, key := of.Issue(t, adjust)
		return client(t, ca, cert, key)
	}
	if err := s.call(t.Context(), issued(callers, nil)); err != nil {
		t.Fatalf("a good caller: %v", err)
	}
	for _, c := range []struct {
		name                    string
		client                  *certs.Client
		theirs, reason, atTheir string // at the caller's end, and at the server's: the reason, and a part of the line
	}{
		{"other CA", issued(other, nil), "unknown certificate authority", "unknown_ca", "signed by unknown authority"},
		{
			"expired", issued(callers, func(c *x509.Certificate) { c.NotAfter = time.Now().Add(-time.Minute) }),
			"expired certificate", "expired", "certificate has expired",
		},
		{
			"not yet valid", issued(callers, func(c *x509.Certificate) { c.NotBefore = time.Now().Add(time.Minute) }),
			"expired certificate", "not_yet_valid", "is before",
		},
		{
			"no SAN", issued(callers, func(c *x509.Certificate) { c.DNSNames, c.IPAddresses = nil, nil }),
			"bad certificate", "no_name", "names nobody",
		},
		{"of servers", issued(callers, func(c *x509.Certificate) {
			c.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}
		}), "bad certificate", "wrong_usage", "incompatible key usage"},
		{"no certificate", client(t, ca, nil, nil), "certificate required", "no_certificate", "didn't provide a certificate"},
		{
			"a server of another CA", client(t, other, nil, nil), "name the CA of the server with --tls-ca",
			"refused_by_caller", "remote error: tls: bad certificate",
		},
		{
			"another name", &certs.Client{CA: client(t, ca, nil, nil).CA, ServerName: "robot"},
			"give it with --tls-server-name", "refused_by_caller", "bad certificate",
		},
	} {
		before := s.keeper.Failures()[c.reason]
		err := s.call(t.Context(), c.client)
		if err == nil || !strings.Contains(err.Error()+certs.Advice(err.Error()), c.theirs) {
			t.Errorf("%s: the caller has %v, want %q", c.name, err, c.theirs)
		}
		if err != nil && !strings.Contains(c.theirs, "--") && certs.Advice(err.Error()) == "" {
			t.Errorf("%s: no advice for %v", c.name, err)
		}
		weftest.Until(t, c.name+": the server counts it as "+c.reason, func() bool {
			return s.keeper.Failures()[c.reason] > before
		})
		// Few are logged a second: each on a server of its own.
		alone := serve(t, secret(t, ca, callers), nil)
		_ = alone.call(t.Context(), c.client)
		weftest.Until(t, c.name+": the server logs "+c.atTheir, func() bool {
			return slices.ContainsFunc(alone.log.Lines("reason="+c.reason), func(line string) bool {
				return strings.Contains(line, c.atTheir)
			})
		})
	}
	t.Run("logged", func(t *testing.T) { // few a second: each reason on a server of its own
		for _, want := range []string{"reason=unknown_ca", "others_since=0", "listener=listen", "peer=127.0.0.1:"} {
			if len(s.log.Lines(want)) == 0 {
				t.Errorf("the log lacks %s: %q", want, s.log.Lines(""))
			}
		}
	})
}

// TestWrongKey: a caller that has a certificate of somebody else lacks its key.
func TestWrongKey(t *testing.T) {
	ca, callers := weftest.NewAuthority(t, "servers"), weftest.NewAuthority(t, "callers")
	s := serve(t, secret(t, ca, callers), nil)
	cert, key := callers.Issue(t, nil)
	stolen, _ := callers.Issue(t, nil)
	if err := s.call(t.Context(), client(t, ca, stolen, key)); err == nil ||
		!strings.Contains(err.Error(), "does not go with the certificate") {
		t.Errorf("the flags: %v", err)
	}
	own, err := tls.X509KeyPair(cert, key)
	if err != nil {
		t.Fatal(err)
	}
	theirs, err := tls.X509KeyPair(callers.Issue(t, nil))
	if err != nil {
		t.Fatal(err)
	}
	own.Certificate = theirs.Certificate
	roots := x509.NewCertPool()
	roots.AddCert(ca.Cert)
	_, err = shake(t.Context(), s.address, &tls.Config{
		RootCAs: roots, NextProtos: []string{"h2"}, Certificates: []tls.Certificate{own},
	})
	if err == nil || !strings.Contains(err.Error(), "error decrypting message") {
		t.Errorf("the caller has %v", err)
	}
	weftest.Until(t, "the server counts it", func() bool { return s.keeper.Failures()["wrong_key"] == 1 })
	if s.log.Lines("reason=wrong_key") == nil {
		t.Errorf("logged %q", s.log.Lines(""))
	}
}

// TestNoServerSAN: a caller refuses a server without a name, and says why; both know.
func TestNoServerSAN(t *testing.T) {
	ca := weftest.NewAuthority(t, "servers")
	c := client(t, ca, nil, nil)
	bare, key := ca.Issue(t, func(c *x509.Certificate) { c.DNSNames, c.IPAddresses = nil, nil })
	pair, err := tls.X509KeyPair(bare, key)
	if err != nil {
		t.Fatal(err)
	}
	l, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{Certificates: []tls.Certificate{pair}})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	said := make(chan error, 1)
	go func() {
		conn, err := l.Accept()
		if err == nil {
			err = conn.(*tls.Conn).Handshake()
			conn.Close()
		}
		said <- err
	}()
	options, err := c.DialOptions(l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	err = check(t.Context(), l.Addr().String(), options...)
	if err == nil || !strings.Contains(err.Error(), "SAN") ||
		!strings.Contains(certs.Advice(err.Error()), "--tls-server-name") {
		t.Errorf("the caller has %v", err)
	}
	if err := <-said; err == nil || !strings.Contains(err.Error(), "remote error: tls: bad certificate") {
		t.Errorf("the server has %v", err)
	}
}

// TestOtherProtocols: callers that speak something else are told apart, and both ends have a word for it.
func TestOtherProtocols(t *testing.T) {
	ca := weftest.NewAuthority(t, "servers")
	s := serve(t, secret(t, ca), nil)
	roots := x509.NewCertPool()
	roots.AddCert(ca.Cert)
	err := check(t.Context(), s.address, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err == nil || !strings.Contains(certs.Advice(err.Error()), "may speak TLS") {
		t.Errorf("in the clear: %v", err)
	}
	plain := httptest.NewServer(http.NotFoundHandler())
	defer plain.Close()
	err = check(t.Context(), plain.Listener.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err == nil || !strings.Contains(certs.Advice(err.Error()), "an address of HTTP") {
		t.Errorf("to HTTP: %v", err)
	}
	_, old := shake(t.Context(), s.address, &tls.Config{RootCAs: roots, MaxVersion: tls.VersionTLS12})
	_, web := shake(t.Context(), s.address, &tls.Config{RootCAs: roots, NextProtos: []string{"http/1.1"}})
	if old == nil || web == nil {
		t.Errorf("TLS 1.2: %v, HTTP/1.1: %v", old, web)
	}
	weftest.Until(t, "each has its reason", func() bool {
		f := s.keeper.Failures()
		return f["not_tls"] == 1 && f["old_tls"] == 1 && f["no_http2"] == 1
	})
}
