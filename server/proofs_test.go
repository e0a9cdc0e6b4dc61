package server_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/weftserve/weft/internal/weftest"
	weftv1 "github.com/weftserve/weft/proto/gen/weft/v1"
	"github.com/weftserve/weft/server"
	"github.com/weftserve/weft/server/access"
	"github.com/weftserve/weft/server/protect"
	"github.com/weftserve/weft/server/servertest"
	"github.com/weftserve/weft/server/transport"
)

// issue signs a certificate of that authority.
func issue(t *testing.T, a *weftest.Authority, c x509.Certificate) tls.Certificate {
	t.Helper()
	cert, key := a.Issue(t, func(of *x509.Certificate) {
		of.Subject, of.DNSNames, of.URIs = c.Subject, c.DNSNames, c.URIs
		of.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth, x509.ExtKeyUsageServerAuth}
	})
	pair, err := tls.X509KeyPair(cert, key)
	if err != nil {
		t.Fatal(err)
	}
	return pair
}

// proofs is an access file with an identity for each kind of proof. Each may observe, so that a denial of predictions
// names the identity.
func proofs(t *testing.T) *access.Config {
	t.Helper()
	c := &access.Config{Roles: map[string]access.Role{"see": {Observe: []string{"*"}}}}
	for _, e := range [][]string{
		{"spiffe", "spiffe://example.org/robot/*"},
		{"dns", "dns:robot-*.example.org"},
		{"subject", "subject:CN=arm,O=Example"},
		{"token", "token:fleet-*"},
		{"jwt", "jwt:ada"},
		{"group", "group:staff"},
		{"uid", fmt.Sprint("uid:", os.Getuid())},
		{"anyone", "anonymous"},
	} {
		caller, err := access.ParsePattern(e[1])
		if err != nil {
			t.Fatal(err)
		}
		c.Identities = append(c.Identities, access.Entry{
			Name: e[0], Weight: 1, Roles: []string{"see"}, Callers: []access.Pattern{caller},
		})
	}
	return c
}

// TestProofsOnRealSockets: each kind of proof makes its identity, over TCP with TLS and over a unix socket.
func TestProofsOnRealSockets(t *testing.T) {
	signing, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	keys, err := json.Marshal(jose.JSONWebKeySet{Keys: []jose.JSONWebKey{{Key: signing.Public(), KeyID: "k"}}})
	if err != nil {
		t.Fatal(err)
	}
	var issuer *httptest.Server
	issuer = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/keys" {
			_, _ = w.Write(keys)
			return
		}
		fmt.Fprintf(w, `{"issuer": %q, "jwks_uri": %q}`, issuer.URL, issuer.URL+"/keys")
	}))
	defer issuer.Close()
	defer http.DefaultTransport.(*http.Transport).CloseIdleConnections()
	jwt := func(subject string, groups ...string) string {
		signer, err := jose.NewSigner(jose.SigningKey{
			Algorithm: jose.ES256, Key: jose.JSONWebKey{Key: signing, KeyID: "k"},
		}, nil)
		if err != nil {
			t.Fatal(err)
		}
		text, err := json.Marshal(map[string]any{
			"iss": issuer.URL, "aud": []string{"weft"}, "sub": subject, "groups": groups, "exp": time.Now().Unix() + 3600,
		})
		if err != nil {
			t.Fatal(err)
		}
		signed, err := signer.Sign(text)
		if err != nil {
			t.Fatal(err)
		}
		compact, err := signed.CompactSerialize()
		if err != nil {
			t.Fatal(err)
		}
		return compact
	}
	tokens, faults := access.ParseTokens(fmt.Sprintf("fleet-7 sha256:%x\nspare sha256:%x expires 2020-01-01T00:00:00Z",
		sha256.Sum256([]byte("secret")), sha256.Sum256([]byte("old"))))
	if faults != nil {
		t.Fatal(faults)
	}
	verifier, err := access.NewIssuer(access.IssuerConfig{URL: issuer.URL, Audience: "weft", Groups: "groups"})
	if err != nil {
		t.Fatal(err)
	}
	control := &access.Control{}
	h := servertest.New(t, server.Config{Access: control})
	control.Follow(access.NewPolicy(proofs(t), nil, time.Now()), &access.Prover{Tokens: tokens, Issuer: verifier})

	ca, strangers := weftest.NewAuthority(t, "ca"), weftest.NewAuthority(t, "strangers")
	pool := x509.NewCertPool()
	pool.AddCert(ca.Cert)
	secure := credentials.NewTLS(&tls.Config{
		Certificates: []tls.Certificate{issue(t, ca, x509.Certificate{})},
		ClientAuth:   tls.VerifyClientCertIfGiven, ClientCAs: pool,
	})
	serve := func(c credentials.TransportCredentials, l net.Listener, err error) string {
		if err != nil {
			t.Fatal(err)
		}
		g := grpc.NewServer(append(transport.Options(transport.DefaultMaxMessageBytes, h.Memory), h.Options(c)...)...)
		h.Register(g)
		go func() { _ = g.Serve(protect.New(protect.Config{}).Listen(l, transport.PingTimeout)) }()
		t.Cleanup(g.Stop)
		return l.Addr().String()
	}
	tcp, err := net.Listen("tcp", "127.0.0.1:0")
	tcpAddress := serve(secure, tcp, err)
	socket := filepath.Join(t.TempDir(), "s")
	unix, err := net.Listen("unix", socket)
	serve(insecure.NewCredentials(), unix, err)

	tlsWith := func(certificates ...tls.Certificate) credentials.TransportCredentials {
		return credentials.NewTLS(&tls.Config{
			RootCAs: pool,
			GetClientCertificate: func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
				if len(certificates) == 0 {
					return &tls.Certificate{}, nil
				}
				return &certificates[0], nil
			},
		})
	}
	spiffe := func(id string) tls.Certificate {
		u, err := url.Parse(id)
		if err != nil {
			t.Fatal(err)
		}
		return issue(t, ca, x509.Certificate{URIs: []*url.URL{u}, DNSNames: []string{"other.example.org"}})
	}
	robot := spiffe("spiffe://example.org/robot/7")
	named := func(cn string, dns ...string) tls.Certificate {
		return issue(t, ca, x509.Certificate{
			Subject: pkix.Name{CommonName: cn, Organization: []string{"Example"}}, DNSNames: dns,
		})
	}
	const overTCP, overUnix = "", "unix"
	for name, tt := range map[string]struct {
		by          string
		certificate *tls.Certificate
		token       string
		want        string // the identity, or a code
	}{
		"spiffe":                        {overTCP, &robot, "", "spiffe"},
		"spiffe of a deeper path":       {overTCP, new(spiffe("spiffe://example.org/robot/7/arm")), "", "anyone"},
		"spiffe of another domain":      {overTCP, new(spiffe("spiffe://example.com/robot/7")), "", "anyone"},
		"dns":                           {overTCP, new(named("x", "ROBOT-7.example.org")), "", "dns"},
		"dns of a deeper name":          {overTCP, new(named("x", "robot-7.evil.example.org")), "", "anyone"},
		"the second of the dns names":   {overTCP, new(named("x", "a.org", "robot-8.example.org")), "", "dns"},
		"subject":                       {overTCP, new(named("arm")), "", "subject"},
		"subject with more":             {overTCP, new(named("arm,O=Example")), "", "anyone"},
		"no certificate":                {overTCP, nil, "", "anyone"},
		"token":                         {overTCP, nil, "secret", "token"},
		"a token wins over certificate": {overTCP, &robot, "secret", "token"},
		"a bad token loses everything":  {overTCP, &robot, "guess", "Unauthenticated"},
		"a token that expired":          {overTCP, &robot, "old", "Unauthenticated"},
		"jwt":                           {overTCP, nil, jwt("ada"), "jwt"},
		"group":                         {overTCP, nil, jwt("bob", "others", "staff"), "group"},
		"a jwt of nobody":               {overTCP, nil, jwt("eve"), "anyone"},
		"a changed jwt":                 {overTCP, nil, jwt("eve") + "A", "Unauthenticated"},
		"unix socket":                   {overUnix, nil, "", "uid"},
		"a token over a unix socket":    {overUnix, nil, "secret", "token"},
	} {
		t.Run(name, func(t *testing.T) {
			address, c := "passthrough:"+tcpAddress, tlsWith()
			if tt.by == overUnix {
				address, c = "unix:"+socket, insecure.NewCredentials()
			} else if tt.certificate != nil {
				c = tlsWith(*tt.certificate)
			}
			conn, err := grpc.NewClient(address, grpc.WithTransportCredentials(c))
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			ctx := t.Context()
			if tt.token != "" {
				ctx = metadata.AppendToOutgoingContext(ctx, "authorization", "Bearer "+tt.token)
			}
			for range 2 { // the second time as the connection remembers it
				if got := whoIs(ctx, conn); got != tt.want {
					t.Errorf("the caller is %s, want %s", got, tt.want)
				}
			}
			if tt.certificate != nil && tt.token == "secret" { // on the same connection, without it
				if got := whoIs(t.Context(), conn); got != "spiffe" {
					t.Errorf("without the token the caller is %s", got)
				}
			}
		})
	}
	t.Run("a certificate of strangers", func(t *testing.T) {
		conn, err := grpc.NewClient("passthrough:"+tcpAddress, grpc.WithTransportCredentials(
			tlsWith(issue(t, strangers, x509.Certificate{DNSNames: []string{"robot-7.example.org"}}))))
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		if got := whoIs(t.Context(), conn); got != "Unavailable" {
			t.Errorf("the caller is %s", got)
		}
	})
}

// whoIs returns the identity that the server takes a caller for, by the denial of a prediction.
func whoIs(ctx context.Context, conn *grpc.ClientConn) string {
	_, err := weftv1.NewPredictionServiceClient(conn).Predict(ctx, servertest.Observation(""))
	if st := status.Convert(err); st.Code() == codes.PermissionDenied {
		name, _ := strings.CutPrefix(st.Message(), "identity ")
		name, _, _ = strings.Cut(name, " ")
		return name
	}
	return status.Code(err).String()
}
