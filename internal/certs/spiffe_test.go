package certs_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"log/slog"
	"net"
	"net/url"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spiffe/go-spiffe/v2/proto/spiffe/workload"
	"google.golang.org/grpc"

	"github.com/weftserve/weft/internal/certs"
	"github.com/weftserve/weft/internal/weftest"
)

// agent is a SPIFFE Workload API with one identity.
type agent struct {
	workload.UnimplementedSpiffeWorkloadAPIServer

	now chan *workload.X509SVIDResponse // capacity 1
}

// FetchX509SVID sends each identity as it comes.
func (a *agent) FetchX509SVID(_ *workload.X509SVIDRequest, to grpc.ServerStreamingServer[workload.X509SVIDResponse],
) error {
	for {
		select {
		case r := <-a.now:
			if err := to.Send(r); err != nil {
				return err
			}
		case <-to.Context().Done():
			return to.Context().Err()
		}
	}
}

func of(id string) func(*x509.Certificate) {
	return func(c *x509.Certificate) {
		u, err := url.Parse(id)
		if err != nil {
			panic(err)
		}
		c.URIs = []*url.URL{u}
	}
}

// give gives the server an identity of an authority.
func (a *agent) give(t testing.TB, id string, ca *weftest.Authority) (serial string) {
	t.Helper()
	cert, key := ca.Issue(t, of(id))
	c, _ := pem.Decode(cert)
	k, _ := pem.Decode(key)
	a.now <- &workload.X509SVIDResponse{Svids: []*workload.X509SVID{{
		SpiffeId: id, X509Svid: c.Bytes, X509SvidKey: k.Bytes, Bundle: ca.Cert.Raw,
	}}}
	return serialOf(t, files{cert: cert, key: key})
}

// TestSPIFFE: a server has its certificate and its callers' CAs from a Workload API, and follows it.
func TestSPIFFE(t *testing.T) {
	path := filepath.Join(t.TempDir(), "agent.sock")
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "unix", path)
	if err != nil {
		t.Fatal(err)
	}
	a := &agent{now: make(chan *workload.X509SVIDResponse, 1)}
	g := grpc.NewServer()
	workload.RegisterSpiffeWorkloadAPIServer(g, a)
	weftest.ServeOn(t, g, l)
	ca, next, other := weftest.NewAuthority(t, "first"), weftest.NewAuthority(t, "next"), weftest.NewAuthority(t, "other")
	first := a.give(t, "spiffe://fleet.example/weft", ca)
	s := serve(t, files{}, func(c *certs.Config) { c.Files, c.SPIFFE = certs.Files{}, "unix://"+path })
	asks := func(trusts, issuer *weftest.Authority, id string) *tls.Config {
		c := caller(t, trusts, issuer)
		own, err := tls.X509KeyPair(issuer.Issue(t, func(c *x509.Certificate) {
			c.DNSNames, c.IPAddresses = []string{"robot"}, nil
			if id != "" {
				c.DNSNames = nil
				of(id)(c)
			}
		}))
		if err != nil {
			t.Fatal(err)
		}
		c.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return &own, nil }
		return c
	}
	robot := asks(ca, ca, "spiffe://fleet.example/robot")
	if serial, err := s.serial(t.Context(), robot); err != nil || serial != first {
		t.Fatalf("certificate %s, %v", serial, err)
	}
	for _, c := range []struct {
		name, reason string
		settings     *tls.Config
	}{
		{"another CA", "unknown_ca", asks(ca, other, "spiffe://fleet.example/robot")},
		{"another trust domain", "unknown_ca", asks(ca, ca, "spiffe://elsewhere.example/robot")},
		{"no SPIFFE ID", "no_name", asks(ca, ca, "")},
	} {
		before := s.keeper.Failures()[c.reason]
		if _, err := s.serial(t.Context(), c.settings); err == nil {
			t.Errorf("%s is served", c.name)
		}
		weftest.Until(t, c.name+" counts as "+c.reason, func() bool { return s.keeper.Failures()[c.reason] > before })
	}
	kept, err := shake(t.Context(), s.address, robot)
	if err != nil {
		t.Fatal(err)
	}
	defer kept.Close()
	second := a.give(t, "spiffe://fleet.example/weft", next)
	weftest.Until(t, "the next certificate is in force", func() bool {
		serial, err := s.serial(t.Context(), asks(next, next, "spiffe://fleet.example/robot"))
		return err == nil && serial == second
	})
	if _, err := s.serial(t.Context(), robot); err == nil {
		t.Error("callers of the CA before are served")
	}
	if left := s.keeper.Expiry(); left["server"] <= 0 || left["client_ca"] <= 0 {
		t.Errorf("expiry %v", left)
	}
}

// TestNoSPIFFE: a server without an agent says so.
func TestNoSPIFFE(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := certs.Open(ctx, certs.Config{
		SPIFFE: "unix://" + filepath.Join(t.TempDir(), "agent.sock"), Log: slog.New(slog.DiscardHandler),
	})
	if err == nil || !strings.Contains(err.Error(), "--tls-spiffe-socket") {
		t.Errorf("error %v", err)
	}
}
