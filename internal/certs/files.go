package certs

import (
	"bytes"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/weftserve/weft/internal/config"
)

// FileError is a fault of a file of certificates. The setting is a flag's name without its dashes.
type FileError struct {
	Setting string // that names the file, such as tls-cert
	Path    string
	Fault   string // what is wrong, what was expected, and what to do
}

func (e *FileError) Error() string { return fmt.Sprintf("--%s %s: %s", e.Setting, e.Path, e.Fault) }

// Files are the PEM files of a server.
type Files struct{ Cert, Key, ClientCA string } // ClientCA may be empty: callers are not asked

// contents are the files as they were read.
type contents struct{ cert, key, clientCA []byte }

// sum tells contents apart. PEM has no byte 0, so that no two different sets of files join to the same bytes.
func (c *contents) sum() [sha256.Size]byte {
	return sha256.Sum256(bytes.Join([][]byte{c.cert, c.key, c.clientCA}, []byte{0}))
}

// read reads all files. They may be written at the same time, so that the contents may not go together: material checks
// it.
func (f Files) read() (c *contents, err error) {
	c = &contents{}
	if c.cert, err = readFile("tls-cert", f.Cert); err != nil {
		return nil, err
	}
	if c.key, err = readFile("tls-key", f.Key); err != nil {
		return nil, err
	}
	if f.ClientCA != "" {
		c.clientCA, err = readFile("tls-client-ca", f.ClientCA)
	}
	return c, err
}

// readFile reads a file. The error names the setting and the path once.
func readFile(setting, path string) ([]byte, error) {
	data, err := os.ReadFile(path)
	// The path is in the error below already.
	if cause, is := errors.AsType[*fs.PathError](err); is {
		err = cause.Err
	}
	if err != nil {
		return nil, &FileError{setting, config.Absolute(path), fmt.Sprintf("cannot be read: %v; name a PEM file that this "+
			"server may read", err)}
	}
	return data, nil
}

// material checks the files together. A fault that would make every handshake fail is reported here, when the server
// starts or the files change, and not by each caller. now is the time at which the certificate must be valid.
func (f Files) material(c *contents, now time.Time) (*material, error) {
	pair, err := f.pair(c)
	if err != nil {
		return nil, err
	}
	wrong := func(format string, args ...any) error {
		return &FileError{"tls-cert", f.Cert, fmt.Sprintf(format, args...)}
	}
	// What a caller would find wrong with the certificate is found here.
	leaf := pair.Leaf
	switch {
	case now.After(leaf.NotAfter):
		return nil, wrong("the certificate of %s expired on %s; renew it", subject(leaf), date(leaf.NotAfter))
	case now.Before(leaf.NotBefore):
		return nil, wrong("the certificate of %s is not valid before %s; check the clock of this machine, or wait",
			subject(leaf), date(leaf.NotBefore))
	case !hasName(leaf):
		return nil, wrong("the certificate of %s has no subject alternative name, and callers compare no other; issue one "+
			"with the names and addresses that callers use", subject(leaf))
	// A certificate without extended key usages may be used for anything.
	case len(leaf.ExtKeyUsage) > 0 && !slices.Contains(leaf.ExtKeyUsage, x509.ExtKeyUsageServerAuth) &&
		!slices.Contains(leaf.ExtKeyUsage, x509.ExtKeyUsageAny):
		return nil, wrong("the certificate of %s is not for servers; issue one with the extended key usage serverAuth",
			subject(leaf))
	}
	m := &material{pair: pair}
	if f.ClientCA != "" {
		m.cas, err = readCAs(FileError{Setting: "tls-client-ca", Path: f.ClientCA}, c.clientCA)
	}
	return m, err
}

// pair makes a key pair of the certificates in one file and the key in another. The first certificate is the server's;
// the others lead from it to the CA.
func (f Files) pair(c *contents) (*tls.Certificate, error) {
	if _, err := readCertificates(FileError{Setting: "tls-cert", Path: f.Cert}, c.cert); err != nil {
		return nil, err
	}
	keyAt := FileError{Setting: "tls-key", Path: f.Key}
	// crypto/tls would say of an encrypted key only that it found none.
	if !hasBlock(c.key, "PRIVATE KEY") || hasBlock(c.key, "ENCRYPTED PRIVATE KEY") {
		keyAt.Fault = "holds no key in PEM form that is read without a password; expected a block such as " +
			"-----BEGIN PRIVATE KEY-----"
		return nil, &keyAt
	}
	pair, err := tls.X509KeyPair(c.cert, c.key)
	if err != nil {
		keyAt.Fault = fmt.Sprintf("does not go with the certificate of --tls-cert %s: %v; name the key that the certificate "+
			"was issued for", f.Cert, err)
		return nil, &keyAt
	}
	return &pair, nil
}

// readCAs reads the certificates of CAs. Trusting a certificate that is not a CA's would verify nobody.
func readCAs(at FileError, data []byte) ([]*x509.Certificate, error) {
	cas, err := readCertificates(at, data)
	if err != nil {
		return nil, err
	}
	for i, ca := range cas {
		if !ca.BasicConstraintsValid || !ca.IsCA {
			at.Fault = fmt.Sprintf("certificate %d, of %s, is no CA; name the certificates that those of callers were "+
				"issued by", i+1, subject(ca))
			return nil, &at
		}
	}
	return cas, nil
}

// readCertificates reads all certificates of a PEM file, at least one. Other blocks, such as keys, are skipped.
func readCertificates(at FileError, data []byte) (found []*x509.Certificate, err error) {
	for block, rest := pem.Decode(data); block != nil; block, rest = pem.Decode(rest) {
		if block.Type != "CERTIFICATE" {
			continue
		}
		c, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			at.Fault = fmt.Sprintf("certificate %d cannot be read: %v; issue it again", len(found)+1, err)
			return nil, &at
		}
		found = append(found, c)
	}
	if len(found) == 0 {
		at.Fault = "holds no certificate in PEM form; expected a block -----BEGIN CERTIFICATE-----"
		return nil, &at
	}
	return found, nil
}

// hasBlock reports whether data has a PEM block whose type ends so, such as EC PRIVATE KEY.
func hasBlock(data []byte, kind string) bool {
	for block, rest := pem.Decode(data); block != nil; block, rest = pem.Decode(rest) {
		if strings.HasSuffix(block.Type, kind) {
			return true
		}
	}
	return false
}

// subject returns the distinguished name of a certificate, for logs and errors.
func subject(c *x509.Certificate) string { return printable(c.Subject.String()) }

// date returns a time as logs and errors have it, in UTC: certificates have no other.
func date(t time.Time) string { return t.UTC().Format(time.RFC3339) }
