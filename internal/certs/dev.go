package certs

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"time"
)

const (
	// devValid is how long certificates of [Develop] are valid.
	devValid = 365 * 24 * time.Hour
	// devRenew is how long before their end new ones are made. They are only looked at when a server starts.
	devRenew = 30 * 24 * time.Hour
	// devDir is the directory that they are in.
	devDir = "tls-dev"
)

// Dev is the files that [Develop] made: those of the server, and those of a client.
type Dev struct {
	Files

	ClientCert, ClientKey string
}

// Develop returns certificates for this machine, issued by a CA of their own, in a directory below dir. It keeps
// existing ones, unless they expire soon or lack a name of the machine. The key of the CA is not stored: nobody can
// issue more certificates that its clients would trust.
func Develop(dir string, now time.Time) (*Dev, error) {
	// Clients of the same machine may use either name.
	names := []string{"localhost"}
	if host, err := os.Hostname(); err == nil && host != "" && !strings.EqualFold(host, "localhost") {
		names = append(names, host)
	}
	dir, err := filepath.Abs(filepath.Join(dir, devDir)) // clients run elsewhere
	if err != nil {
		return nil, fmt.Errorf("--tls-dev: %w", err)
	}
	d := &Dev{
		Files: Files{
			Cert: filepath.Join(dir, "server.pem"), Key: filepath.Join(dir, "server-key.pem"),
			ClientCA: filepath.Join(dir, "ca.pem"),
		},
		ClientCert: filepath.Join(dir, "client.pem"), ClientKey: filepath.Join(dir, "client-key.pem"),
	}
	if d.good(names, now) {
		return d, nil
	}
	if err := makeDev(dir, names, now); err != nil && !d.good(names, now) { // another server may have been faster
		return nil, fmt.Errorf("--tls-dev: certificates cannot be made: %w; --state-dir names another directory", err)
	}
	return d, nil
}

// good reports whether the files are there, belong together, and are valid until devRenew from now. Any fault is a no:
// new ones are then made.
func (d *Dev) good(names []string, now time.Time) bool {
	// Files of an interrupted or an older program fail one of the checks below.
	c, err := d.Files.read()
	if err != nil {
		return false
	}
	m, err := d.Files.material(c, now.Add(devRenew))
	if err != nil {
		return false
	}
	// The machine may have been renamed.
	for _, name := range names {
		if m.pair.Leaf.VerifyHostname(name) != nil {
			return false
		}
	}
	// The client's certificate must be of the same CA; a mixed directory would let the server start and refuse the
	// client.
	client := Client{Cert: d.ClientCert, Key: d.ClientKey}
	pair, err := client.pair()
	if err != nil {
		return false
	}
	cas := x509.NewCertPool()
	for _, ca := range m.cas {
		cas.AddCert(ca)
	}
	_, err = pair.Leaf.Verify(x509.VerifyOptions{
		Roots: cas, CurrentTime: now.Add(devRenew), KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	})
	return err == nil
}

// makeDev issues all certificates in a new directory beside the final one, and renames it: another process sees either
// all old files or all new ones, or for a moment none.
func makeDev(dir string, names []string, now time.Time) error {
	if err := os.MkdirAll(filepath.Dir(dir), 0o700); err != nil {
		return err
	}
	at, err := os.MkdirTemp(filepath.Dir(dir), devDir+"-new-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(at)
	// MaxPathLenZero keeps the CA from issuing other CAs.
	ca := &x509.Certificate{
		Subject: pkix.Name{CommonName: "Weft, for development on " + names[len(names)-1]},
		IsCA:    true, BasicConstraintsValid: true, MaxPathLenZero: true, KeyUsage: x509.KeyUsageCertSign,
		// anybody who trusts it trusts it for this machine only
		PermittedDNSDomainsCritical: true, PermittedDNSDomains: names,
		PermittedIPRanges: []*net.IPNet{
			{IP: net.IPv4(127, 0, 0, 0).To4(), Mask: net.CIDRMask(8, 32)}, {IP: net.IPv6loopback, Mask: net.CIDRMask(128, 128)},
		},
	}
	caKey, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	server := &x509.Certificate{
		Subject: pkix.Name{CommonName: "weft"}, DNSNames: names,
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1), net.IPv6loopback},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}, KeyUsage: x509.KeyUsageDigitalSignature,
	}
	client := &x509.Certificate{
		Subject: pkix.Name{CommonName: "weft client"}, DNSNames: []string{"client.localhost"},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}, KeyUsage: x509.KeyUsageDigitalSignature,
	}
	// The CA signs itself first, and then the two others.
	err = errors.Join(
		issue(at, "ca", ca, caKey, ca, caKey, now),
		issueWithKey(at, "server", server, ca, caKey, now),
		issueWithKey(at, "client", client, ca, caKey, now),
	)
	if err != nil {
		return err
	}
	// A directory cannot be renamed onto one that has files.
	if err := clearDev(dir, at); err != nil {
		return err
	}
	return os.Rename(at, dir)
}

// clearDev removes the directory of earlier certificates. If it holds a file that makeDev does not make, it returns an
// error instead: that file is somebody's.
func clearDev(dir, made string) error {
	there, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	for _, entry := range there {
		if _, ours := os.Lstat(filepath.Join(made, entry.Name())); ours != nil {
			return fmt.Errorf("%s is none of its files, and they are to be made anew: move it elsewhere",
				filepath.Join(dir, entry.Name()))
		}
	}
	return errors.Join(err, os.RemoveAll(dir))
}

// issueWithKey makes a key, and a certificate for it, and writes both.
func issueWithKey(dir, name string, c, ca *x509.Certificate, caKey *ecdsa.PrivateKey, now time.Time) error {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return err
	}
	return errors.Join(
		writePEM(filepath.Join(dir, name+"-key.pem"), "PRIVATE KEY", der),
		issue(dir, name, c, key, ca, caKey, now))
}

// issue signs a certificate by a CA and writes it. The caller has set all but the serial number and the time of
// validity.
func issue(dir, name string, c *x509.Certificate, key *ecdsa.PrivateKey, ca *x509.Certificate,
	caKey *ecdsa.PrivateKey, now time.Time,
) (err error) {
	if c.SerialNumber, err = rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 127)); err != nil {
		return err
	}
	// Clocks of containers on one machine may be a little behind.
	c.NotBefore, c.NotAfter = now.Add(-time.Hour), now.Add(devValid)
	der, err := x509.CreateCertificate(rand.Reader, c, ca, &key.PublicKey, caKey)
	if err != nil {
		return err
	}
	return writePEM(filepath.Join(dir, name+".pem"), "CERTIFICATE", der)
}

// writePEM writes a file that only its owner may read: keys are among them.
func writePEM(path, kind string, der []byte) error {
	return os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600)
}
