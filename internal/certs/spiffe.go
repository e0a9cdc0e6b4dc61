package certs

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"time"

	"github.com/spiffe/go-spiffe/v2/spiffetls/tlsconfig"
	"github.com/spiffe/go-spiffe/v2/workloadapi"
)

// spiffePatience is how long Open waits for a Workload API to give the first certificate. An agent that was just
// started needs some seconds.
const spiffePatience = 10 * time.Second

// spiffe takes certificates from a Workload API, and publishes each that it sends. The library calls it from one
// goroutine, which alone uses seen.
type spiffe struct {
	keeper *Keeper
	first  chan struct{} // closed when there are certificates
	seen   bool
	latest error // of the API, before there are any; to be read once done is closed

	// What close ends, in this order: the watch, its goroutine, the connection.
	client *workloadapi.Client
	cancel context.CancelFunc
	done   chan struct{}
}

// openSPIFFE watches the Workload API, and returns once it has given certificates. The watch goes on after ctx has
// ended, until close.
func (k *Keeper) openSPIFFE(ctx context.Context) error {
	client, err := workloadapi.New(ctx, workloadapi.WithAddr(k.cfg.SPIFFE))
	if err != nil {
		return fmt.Errorf("--tls-spiffe-socket %s: %w; name the socket of a SPIFFE Workload API", k.cfg.SPIFFE, err)
	}
	// ctx bounds the start only.
	watching, cancel := context.WithCancel(context.WithoutCancel(ctx))
	s := &spiffe{keeper: k, first: make(chan struct{}), client: client, cancel: cancel, done: make(chan struct{})}
	k.spiffe = s
	go func() {
		defer close(s.done)
		_ = client.WatchX509Context(watching, s) // it ends with its context, and tells of every other error before
	}()
	patience, stop := context.WithTimeout(ctx, spiffePatience)
	defer stop()
	select {
	case <-s.first:
		return nil
	case <-patience.Done():
	}
	err = s.close()
	return errors.Join(fmt.Errorf("--tls-spiffe-socket %s gave no certificate within %v (%w); check that the agent runs, "+
		"and that this workload is registered", k.cfg.SPIFFE, spiffePatience, cmp.Or(s.latest, patience.Err())), err)
}

// close ends the watch, and returns when the library calls no more.
func (s *spiffe) close() error {
	s.cancel()
	<-s.done
	return s.client.Close()
}

// OnX509ContextUpdate implements workloadapi.X509ContextWatcher. Each update has the server's certificate with its key,
// and the CAs of all trust domains. Only the CAs of its own domain are watched for their expiry.
func (s *spiffe) OnX509ContextUpdate(c *workloadapi.X509Context) {
	k, id := s.keeper, c.DefaultSVID()
	// The first certificate is the workload's own; the others lead to its CA.
	pair := &tls.Certificate{PrivateKey: id.PrivateKey, Leaf: id.Certificates[0]}
	for _, cert := range id.Certificates {
		pair.Certificate = append(pair.Certificate, cert.Raw)
	}
	m := &material{
		pair:   pair,
		verify: tlsconfig.VerifyPeerCertificate(c.Bundles, tlsconfig.AuthorizeAny()),
	}
	if own, err := c.Bundles.GetX509BundleForTrustDomain(id.ID.TrustDomain()); err == nil {
		m.cas = own.X509Authorities()
	}
	k.publish(m)
	if !s.seen {
		s.seen = true
		close(s.first)
		return
	}
	k.tellReloaded(m)
}

// OnX509ContextWatchError implements workloadapi.X509ContextWatcher. The library calls it at growing intervals.
func (s *spiffe) OnX509ContextWatchError(err error) {
	if errors.Is(err, context.Canceled) {
		return
	}
	if !s.seen {
		s.latest = err
	}
	s.keeper.cfg.Log.Warn("SPIFFE Workload API unavailable", "event", "spiffe_unavailable",
		"socket", s.keeper.cfg.SPIFFE, "cause", printable(err.Error()), "kept", "previous certificates, if there are any")
}
