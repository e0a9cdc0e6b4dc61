package certs

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net"
	"os"
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/weftserve/weft/internal/config"
)

// Client is the flags by which a command calls a server over TLS.
type Client struct {
	TLS        bool   `name:"tls" help:"Use TLS with the system's CAs; the other --tls flags imply it."`
	CA         string `name:"tls-ca" type:"path" placeholder:"FILE" help:"Trust the CAs of this PEM file instead of the system's."`
	Cert       string `name:"tls-cert" type:"path" placeholder:"FILE" help:"PEM file of the client certificate."`
	Key        string `name:"tls-key" type:"path" placeholder:"FILE" help:"PEM file of the certificate's key."`
	ServerName string `name:"tls-server-name" placeholder:"NAME" help:"Name in the server's certificate, if it is not the address."`
	TokenFile  string `name:"token-file" type:"path" placeholder:"FILE" help:"File of the bearer token; without TLS only for a server on this machine."`
}

// DialOptions returns the options of connections to a target. It reads all files, so that their faults are found before
// the first call. A token never goes to another machine without TLS.
func (c *Client) DialOptions(target string) ([]grpc.DialOption, error) {
	// Other schemes, such as dns:///, are gRPC's.
	_, _, err := net.SplitHostPort(target)
	if scheme, _, is := strings.Cut(target, ":"); strings.HasPrefix(scheme, "http") || !is && err != nil {
		return nil, fmt.Errorf("expected the server's HOST:PORT, such as 127.0.0.1:9000, or unix:/PATH, found %q", target)
	}
	transport, err := c.transport()
	if err != nil {
		return nil, err
	}
	options := []grpc.DialOption{grpc.WithTransportCredentials(transport)}
	if c.TokenFile == "" {
		return options, nil
	}
	// On this machine nobody but its administrator can read the connection.
	if !c.secure() && !local(target) {
		return nil, config.Faults{{
			Key: "--token-file " + c.TokenFile,
			Message: fmt.Sprintf("the token would travel to %s in the clear; speak TLS with --tls or --tls-ca, or call a "+
				"server on this machine", target),
		}}
	}
	// A missing or empty file is told now, and not by the first call.
	t := &token{path: c.TokenFile, secure: c.secure()}
	if _, err := t.read(time.Now()); err != nil {
		return nil, err
	}
	return append(options, grpc.WithPerRPCCredentials(t)), nil
}

// secure reports whether any flag of TLS is given, since each implies --tls.
func (c *Client) secure() bool {
	return c.TLS || c.CA != "" || c.Cert != "" || c.Key != "" || c.ServerName != ""
}

// transport returns the credentials of connections, from files that are read once: a command does not run for long.
func (c *Client) transport() (credentials.TransportCredentials, error) {
	if !c.secure() {
		return insecure.NewCredentials(), nil
	}
	// Without a name of its own gRPC takes the one of the address.
	settings := &tls.Config{MinVersion: tls.VersionTLS13, ServerName: c.ServerName}
	if c.CA != "" {
		data, err := readFile("tls-ca", c.CA)
		if err != nil {
			return nil, err
		}
		cas, err := readCAs(FileError{Setting: "tls-ca", Path: c.CA}, data)
		if err != nil {
			return nil, err
		}
		// The named CAs replace those of the system.
		settings.RootCAs = x509.NewCertPool()
		for _, ca := range cas {
			settings.RootCAs.AddCert(ca)
		}
	}
	if (c.Cert == "") != (c.Key == "") {
		return nil, config.Faults{{
			Key:     "--tls-cert and --tls-key",
			Message: fmt.Sprintf("expected both or none, found %q and %q", c.Cert, c.Key),
		}}
	}
	if c.Cert != "" {
		pair, err := c.pair()
		if err != nil {
			return nil, err
		}
		// It is shown whatever CAs the server names: so the server can say what is wrong with it.
		settings.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return pair, nil }
	}
	return &advised{credentials.NewTLS(settings)}, nil
}

// pair reads the client's own certificate and key, with the errors of a server's.
func (c *Client) pair() (*tls.Certificate, error) {
	f := Files{Cert: c.Cert, Key: c.Key}
	data, err := f.read()
	if err != nil {
		return nil, err
	}
	return f.pair(data)
}

// local reports whether a target of gRPC is on this machine. Schemes that it does not know, such as xds:///, are not
// local: a resolver could send the token to another machine without encryption.
func local(target string) bool {
	if strings.HasPrefix(target, "unix-abstract:") {
		return true
	}
	// Both lead to the address behind them.
	for _, resolver := range []string{"passthrough:", "dns:"} {
		if rest, is := strings.CutPrefix(target, resolver); is {
			target = strings.TrimPrefix(rest, "///")
		}
	}
	return config.Local(target)
}

// tokenKept is how long a token is used before its file is read again: mounted tokens are rotated by replacing the
// file.
const tokenKept = time.Minute

// token adds the token of a file to each call.
type token struct {
	path   string
	secure bool // it goes over TLS only

	// mu is held while the file is read, so that calls that come together read it once.
	mu    sync.Mutex
	value string    // guarded by mu
	at    time.Time // guarded by mu; when it was read
}

// read returns the token of the file, or the one read within the last minute. Calls may ask concurrently. A token that
// does not fit into an HTTP header is refused here, where the error can name the file.
func (t *token) read(now time.Time) (string, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	// A failed read leaves the earlier token's time, so that the next call tries again.
	if t.value != "" && now.Sub(t.at) < tokenKept {
		return t.value, nil
	}
	data, err := os.ReadFile(config.Absolute(t.path))
	if err != nil {
		return "", fmt.Errorf("--token-file: %w; name a file that holds the token and nothing else", err)
	}
	value := strings.TrimSpace(string(data))
	if value == "" || strings.ContainsFunc(value, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return "", fmt.Errorf("--token-file %s: holds no token; expected one line of printable ASCII without blanks", t.path)
	}
	t.value, t.at = value, now
	return value, nil
}

// GetRequestMetadata implements credentials.PerRPCCredentials.
func (t *token) GetRequestMetadata(context.Context, ...string) (map[string]string, error) {
	value, err := t.read(time.Now())
	if err != nil {
		return nil, err
	}
	return map[string]string{"authorization": "Bearer " + value}, nil
}

// RequireTransportSecurity implements credentials.PerRPCCredentials.
func (t *token) RequireTransportSecurity() bool { return t.secure }
