package certs_test

import (
	"bytes"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/weftserve/weft/internal/certs"
	"github.com/weftserve/weft/internal/weftest"
)

// TestFaultsOfFiles: each wrong file has its own error, which names it and says what to do.
func TestFaultsOfFiles(t *testing.T) {
	ca := weftest.NewAuthority(t, "servers")
	cert, key := ca.Issue(t, nil)
	_, other := ca.Issue(t, nil)
	issue := func(adjust func(*x509.Certificate)) (c, k []byte) { return ca.Issue(t, adjust) }
	expired, expiredKey := issue(func(c *x509.Certificate) { c.NotAfter = time.Now().Add(-time.Hour) })
	early, earlyKey := issue(func(c *x509.Certificate) { c.NotBefore = time.Now().Add(time.Hour) })
	bare, bareKey := issue(func(c *x509.Certificate) { c.DNSNames, c.IPAddresses = nil, nil })
	caller, callerKey := issue(func(c *x509.Certificate) {
		c.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}
	})
	for _, c := range []struct {
		name          string
		cert, key, ca []byte // nil: there is no file
		setting, want string // empty: there is no fault
	}{
		{"good", cert, key, ca.PEM(), "", ""},
		{"several CAs", cert, key, append(ca.PEM(), weftest.NewAuthority(t, "others").PEM()...), "", ""},
		{"no certificate", nil, key, ca.PEM(), "tls-cert", "cannot be read: no such file"},
		{"no key", cert, nil, ca.PEM(), "tls-key", "cannot be read: no such file"},
		{"no CA", cert, key, nil, "tls-client-ca", "cannot be read: no such file"},
		{"not PEM", []byte("hello"), key, ca.PEM(), "tls-cert", "holds no certificate in PEM form"},
		{"empty key", cert, []byte{}, ca.PEM(), "tls-key", "holds no key in PEM form"},
		{"an encrypted key", cert, pem.EncodeToMemory(&pem.Block{
			Type: "ENCRYPTED PRIVATE KEY", Bytes: []byte("sealed"),
		}), ca.PEM(), "tls-key", "without a password"},
		{"a certificate as the key", cert, cert, ca.PEM(), "tls-key", "holds no key in PEM form"},
		{"another key", cert, other, ca.PEM(), "tls-key", "does not go with the certificate"},
		{"expired", expired, expiredKey, ca.PEM(), "tls-cert", "expired on "},
		{"not yet valid", early, earlyKey, ca.PEM(), "tls-cert", "is not valid before "},
		{"no SAN", bare, bareKey, ca.PEM(), "tls-cert", "no subject alternative name"},
		{"of a client", caller, callerKey, ca.PEM(), "tls-cert", "is not for servers"},
		{"a CA that is none", cert, key, cert, "tls-client-ca", "is no CA"},
		{"a CA not PEM", cert, key, []byte("x"), "tls-client-ca", "holds no certificate"},
	} {
		dir := t.TempDir()
		f := certs.Files{
			Cert: filepath.Join(dir, "cert.pem"), Key: filepath.Join(dir, "key.pem"), ClientCA: filepath.Join(dir, "ca.pem"),
		}
		for path, data := range map[string][]byte{f.Cert: c.cert, f.Key: c.key, f.ClientCA: c.ca} {
			if data != nil {
				weftest.WriteFile(t, dir, filepath.Base(path), data)
			}
		}
		k, err := certs.Open(t.Context(), certs.Config{Files: f, Log: slog.New(slog.DiscardHandler)})
		if c.want == "" {
			if err != nil {
				t.Errorf("%s: %v", c.name, err)
			}
			continue
		}
		fault, is := errors.AsType[*certs.FileError](err)
		if k != nil || !is || fault.Setting != c.setting || !strings.Contains(err.Error(), c.want) ||
			!strings.Contains(err.Error(), fault.Path) {
			t.Errorf("%s: %v, want %s: %q", c.name, err, c.setting, c.want)
		}
	}
}

// TestDamagedFiles: whatever has befallen a file, the error is one of a file, or the server has its certificate.
func TestDamagedFiles(t *testing.T) {
	const seed = 7
	random := rand.New(rand.NewPCG(seed, seed))
	ca := weftest.NewAuthority(t, "servers")
	cert, key := ca.Issue(t, nil)
	dir := t.TempDir()
	refused := 0
	for range 300 {
		parts := [][]byte{bytes.Clone(cert), bytes.Clone(key), bytes.Clone(ca.PEM())}
		victim := random.IntN(len(parts))
		data := parts[victim]
		switch random.IntN(3) {
		case 0:
			parts[victim] = data[:random.IntN(len(data))]
		case 1:
			for range 1 + random.IntN(4) {
				data[random.IntN(len(data))] = byte(random.IntN(256))
			}
		case 2:
			parts[victim] = parts[random.IntN(len(parts))]
		}
		f := certs.Files{
			Cert: weftest.WriteFile(t, dir, "cert.pem", parts[0]), Key: weftest.WriteFile(t, dir, "key.pem", parts[1]),
			ClientCA: weftest.WriteFile(t, dir, "ca.pem", parts[2]),
		}
		_, err := certs.Open(t.Context(), certs.Config{Files: f, Log: slog.New(slog.DiscardHandler)})
		if _, is := errors.AsType[*certs.FileError](err); err != nil && !is {
			t.Fatalf("%v, which is of no file", err)
		}
		if err != nil {
			refused++
			if strings.ContainsFunc(err.Error(), func(r rune) bool { return r < ' ' && r != '\n' || r > '~' }) {
				t.Errorf("the error has %q", err)
			}
		}
	}
	if refused < 100 {
		t.Errorf("only %d files were refused", refused)
	}
}

// TestKeyReadableByAll is warned of.
func TestKeyReadableByAll(t *testing.T) {
	ca := weftest.NewAuthority(t, "servers")
	cert, key := ca.Issue(t, nil)
	dir := t.TempDir()
	f := certs.Files{Cert: weftest.WriteFile(t, dir, "c", cert), Key: weftest.WriteFile(t, dir, "k", key)}
	for mode, warned := range map[os.FileMode]bool{0o600: false, 0o640: false, 0o644: true} {
		if err := os.Chmod(f.Key, mode); err != nil {
			t.Fatal(err)
		}
		var log weftest.Log
		if _, err := certs.Open(t.Context(), certs.Config{Files: f, Log: slog.New(&log)}); err != nil {
			t.Fatal(err)
		}
		if (len(log.Event("tls_key_readable")) == 1) != warned {
			t.Errorf("mode %v: logged %q", mode, log.Lines(""))
		}
	}
}
