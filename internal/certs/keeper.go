// Package certs gives the listeners of a server their certificates, and the commands that call a server theirs.
//
// # Servers
//
// A [Keeper] hands each handshake the certificates of that moment, by crypto/tls's GetConfigForClient. That serves gRPC
// and net/http alike. One check of the files goes before the first handshake and before each replacement, and
// connections that are open stay open. The certificate providers of gRPC serve gRPC alone. They replace a key and its
// certificate, or the CAs, one by one, and those of advancedtls read files without a word about what is wrong with
// them.
//
// Sessions are never resumed: each connection proves that its caller's CA is still trusted. A connection that is kept
// outlives the CA of its caller.
//
// The Keeper also warns of certificates that expire, and logs and counts the handshakes that fail, with what the
// operator can do. [Develop] makes certificates for a machine that has none.
//
// # Commands
//
// A [Client] has the flags of TLS and of tokens. Its connections keep what a server said before it refused them, and
// [Advice] turns that into what the caller can do.
package certs

import (
	"context"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"log/slog"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc/credentials"
)

// Config says where the certificates of a server come from: files or a SPIFFE Workload API.
type Config struct {
	Files

	SPIFFE   string // the address of a Workload API, such as unix:///run/spire/agent.sock; empty: Files
	Optional bool   // callers of gRPC may come without a certificate
	Log      *slog.Logger
}

// Keeper holds the certificates of a server, and replaces them when they change. Handshakes read the material in force
// without a lock. Run and Reload may replace it concurrently; mu orders them.
type Keeper struct {
	cfg      Config
	now      atomic.Pointer[material]
	failures failures
	expiry   expiry
	spiffe   *spiffe // nil: files

	mu     sync.Mutex        // is held while files are read
	sum    [sha256.Size]byte // guarded by mu; of the files in force
	doubt  [sha256.Size]byte // guarded by mu; of files, or of an error, that were found faulty
	denied bool              // guarded by mu; the fault was logged
}

// Open reads the certificates. A fault of a file is a *FileError. Close must be called, unless Open fails. They are
// replaced only while Run runs, except those of a Workload API, which replaces them by itself.
func Open(ctx context.Context, cfg Config) (*Keeper, error) {
	k := &Keeper{cfg: cfg, expiry: expiry{log: cfg.Log}}
	k.failures.log = cfg.Log
	if cfg.SPIFFE != "" {
		return k, k.openSPIFFE(ctx)
	}
	c, err := cfg.Files.read()
	if err != nil {
		return nil, err
	}
	m, err := cfg.Files.material(c, time.Now())
	if err != nil {
		return nil, err
	}
	// These files are in force: again compares with them.
	k.sum = c.sum()
	k.publish(m)
	k.warnOfKey()
	return k, nil
}

// warnOfKey warns of a key that every user of the machine may read. It is no error: in some containers there is one
// user.
func (k *Keeper) warnOfKey() {
	if info, err := os.Stat(k.cfg.Key); err == nil && info.Mode().Perm()&0o004 != 0 {
		k.cfg.Log.Warn("key readable by every user of the machine", "event", "tls_key_readable", "key", k.cfg.Key,
			"mode", info.Mode().Perm().String(), "remedy", "chmod 0640, or 0600")
	}
}

// publish puts certificates in force for all handshakes from now on.
func (k *Keeper) publish(m *material) { k.now.Store(m.finish(k.cfg.Optional)) }

// Close stops what Open has started.
func (k *Keeper) Close() error {
	if k.spiffe == nil {
		return nil
	}
	return k.spiffe.close()
}

// Credentials returns those of a gRPC server; listener names it in the log.
func (k *Keeper) Credentials(listener string) credentials.TransportCredentials {
	return &watched{k.credentials(), &k.failures, listener}
}

// credentials returns credentials that take the settings of each handshake from the material in force at that moment.
func (k *Keeper) credentials() credentials.TransportCredentials {
	return credentials.NewTLS(&tls.Config{
		MinVersion:         tls.VersionTLS13,
		GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) { return k.now.Load().grpc, nil },
	})
}

// HTTP returns the settings of an HTTP server, which asks callers for a certificate, and serves them without.
func (k *Keeper) HTTP() *tls.Config {
	return &tls.Config{
		MinVersion: tls.VersionTLS13, NextProtos: []string{"http/1.1"},
		GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) { return k.now.Load().http, nil },
	}
}

// Failed logs and counts a handshake that failed in a server other than gRPC's, such as net/http's, which tells of it
// by text only. peer is the address of the caller.
func (k *Keeper) Failed(listener, peer, cause string) {
	k.failures.note(listener, peer, errors.New(cause), time.Now())
}

// Failures returns how many handshakes failed, by reason.
func (k *Keeper) Failures() map[string]uint64 { return k.failures.counts() }

// Expiry returns in how many seconds the first certificate of each role expires, negative once it has: of the server,
// and of the client_ca, if there is any.
func (k *Keeper) Expiry() map[string]float64 {
	out := map[string]float64{}
	for role, c := range k.now.Load().first() {
		out[role] = time.Until(c.NotAfter).Seconds()
	}
	return out
}

// first returns for each role the certificate that expires first. There is none for a role without certificates.
func (m *material) first() map[string]*x509.Certificate {
	out := map[string]*x509.Certificate{}
	earliest := func(role string, of []*x509.Certificate) {
		for _, c := range of {
			if known := out[role]; known == nil || c.NotAfter.Before(known.NotAfter) {
				out[role] = c
			}
		}
	}
	earliest(roleServer, []*x509.Certificate{m.pair.Leaf})
	earliest(roleClientCA, m.cas)
	return out
}
