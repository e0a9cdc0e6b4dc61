package certs

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
)

// material is what handshakes need. It is replaced as a whole and never changed, so that it needs no lock.
type material struct {
	pair *tls.Certificate    // of the server; its Leaf is set
	cas  []*x509.Certificate // of callers; none: callers are not asked
	// verify checks a caller in the place of cas; nil: cas do.
	verify func(raw [][]byte, _ [][]*x509.Certificate) error

	// The settings are made once, by finish: a handshake only takes them.
	grpc, http *tls.Config // that handshakes get
}

// errNobody refuses a certificate without a subject alternative name. CommonName does not count as a name.
var errNobody = errors.New("the caller's certificate has no subject alternative name, so that it names nobody; issue " +
	"one with a DNS name, a URI or an e-mail address")

// finish makes the settings of handshakes, and returns m. HTTP never requires a certificate: its listener serves
// probes, which have none. optional says the same of gRPC.
func (m *material) finish(optional bool) *material {
	m.grpc, m.http = m.config(optional, "h2"), m.config(true, "http/1.1")
	return m
}

// config makes the settings of handshakes for one protocol, with or without a certificate of the caller. Sessions have
// no tickets: a resumed session would not be verified again, and a CA that was taken out would stay trusted for as long
// as its callers resume. With a SPIFFE bundle the library verifies in the place of crypto/tls, which knows one pool of
// CAs and not one for each trust domain.
func (m *material) config(optional bool, protocol string) *tls.Config {
	c := &tls.Config{
		MinVersion: tls.VersionTLS13, Certificates: []tls.Certificate{*m.pair}, NextProtos: []string{protocol},
		SessionTicketsDisabled: true, VerifyConnection: named,
	}
	switch {
	case m.verify != nil:
		c.ClientAuth = tls.RequireAnyClientCert
		c.VerifyPeerCertificate = func(raw [][]byte, chains [][]*x509.Certificate) error {
			// crypto/tls calls it without a certificate where none is required.
			if len(raw) == 0 {
				return nil // ClientAuth has judged that
			}
			return m.verify(raw, chains)
		}
		if optional {
			c.ClientAuth = tls.RequestClientCert
		}
	case len(m.cas) > 0:
		// A certificate that is given must be valid, even where none is required.
		c.ClientCAs = x509.NewCertPool()
		for _, ca := range m.cas {
			c.ClientCAs.AddCert(ca)
		}
		c.ClientAuth = tls.RequireAndVerifyClientCert
		if optional {
			c.ClientAuth = tls.VerifyClientCertIfGiven
		}
	}
	return c
}

// named refuses a caller whose certificate names nobody. The access rules go by subject alternative names; a
// certificate without one would pass as a caller that no rule speaks of.
func named(s tls.ConnectionState) error {
	if len(s.PeerCertificates) > 0 && !hasName(s.PeerCertificates[0]) {
		return errNobody
	}
	return nil
}

// hasName reports whether a certificate has any subject alternative name.
func hasName(c *x509.Certificate) bool {
	return len(c.DNSNames)+len(c.IPAddresses)+len(c.URIs)+len(c.EmailAddresses) > 0
}
