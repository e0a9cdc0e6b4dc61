// Package weftest holds the helpers that tests of several packages share:
//
//   - models written in Go, which need no library (Engine, PerRow, OverRows);
//   - tensors of a few numbers (Floats, Words);
//   - a log that is kept, to look for events in it (Log);
//   - files of a repository (AddVersion, SetManifest);
//   - servers on a free port, and clients of whole servers (Serve, Dial, Predict, AwaitQueue);
//   - certificates (Authority).
package weftest

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"
)

// Authority is a certificate authority of a test.
type Authority struct {
	Cert *x509.Certificate
	Key  *ecdsa.PrivateKey
}

// serials numbers the certificates that were issued, since some verifiers tell them apart by that.
var serials atomic.Int64

// NewAuthority returns an authority of that name, with a certificate that it signed itself.
func NewAuthority(t testing.TB, name string) *Authority {
	t.Helper()
	key := newKey(t)
	c := &x509.Certificate{
		SerialNumber: big.NewInt(serials.Add(1)), Subject: pkix.Name{CommonName: name},
		NotBefore: time.Now().Add(-365 * 24 * time.Hour), NotAfter: time.Now().Add(365 * 24 * time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, c, c, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	if c, err = x509.ParseCertificate(der); err != nil {
		t.Fatal(err)
	}
	return &Authority{c, key}
}

// PEM returns the authority's certificate.
func (a *Authority) PEM() []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: a.Cert.Raw})
}

// Issue returns a certificate and its key as PEM. It names localhost and its addresses, and is valid for a month,
// unless adjust changes that. adjust may be nil.
func (a *Authority) Issue(t testing.TB, adjust func(*x509.Certificate)) (cert, key []byte) {
	t.Helper()
	c := &x509.Certificate{
		SerialNumber: big.NewInt(serials.Add(1)), Subject: pkix.Name{CommonName: "test"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(30 * 24 * time.Hour),
		DNSNames: []string{"localhost"}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1), net.IPv6loopback},
		KeyUsage: x509.KeyUsageDigitalSignature,
	}
	if adjust != nil {
		adjust(c)
	}
	k := newKey(t)
	der, err := x509.CreateCertificate(rand.Reader, c, a.Cert, k.Public(), a.Key)
	if err != nil {
		t.Fatal(err)
	}
	pkcs8, err := x509.MarshalPKCS8PrivateKey(k)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}),
		pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: pkcs8})
}

// newKey returns a key of P-256, which takes the least time to make.
func newKey(t testing.TB) *ecdsa.PrivateKey {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

// WriteFile writes a file of that name into a directory, readable by its owner, and returns its path.
func WriteFile(t testing.TB, dir, name string, data []byte) string {
	t.Helper()
	path := filepath.Join(dir, name)
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}
