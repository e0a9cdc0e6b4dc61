package certs_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/weftserve/weft/internal/certs"
	"github.com/weftserve/weft/internal/weftest"
)

// read reads the files of a server.
func read(t *testing.T, d *certs.Dev) (f files) {
	t.Helper()
	for path, to := range map[string]*[]byte{d.Cert: &f.cert, d.Key: &f.key, d.ClientCA: &f.ca} {
		var err error
		if *to, err = os.ReadFile(path); err != nil {
			t.Fatal(err)
		}
	}
	return f
}

// TestDevelop: certificates are made once, serve this machine and nobody else, and are made anew before they expire.
func TestDevelop(t *testing.T) {
	dir := t.TempDir()
	now := time.Now()
	made := func(at time.Time) (d *certs.Dev, cert string) {
		t.Helper()
		d, err := certs.Develop(dir, at)
		if err != nil {
			t.Fatal(err)
		}
		data, err := os.ReadFile(d.Cert)
		if err != nil {
			t.Fatal(err)
		}
		return d, string(data)
	}
	d, first := made(now)
	if _, again := made(now.AddDate(0, 10, 0)); again != first {
		t.Error("made anew although good")
	}
	left, err := filepath.Glob(filepath.Join(dir, "tls-dev", "*"))
	if err != nil || len(left) != 5 {
		t.Errorf("there are %q, %v; want no key of the CA", left, err)
	}
	for _, path := range left {
		if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%s: %v, %v", path, info.Mode(), err)
		}
	}
	host, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	s := serve(t, read(t, d), nil)
	for _, name := range []string{"", "localhost", "127.0.0.1", "::1", host} {
		c := &certs.Client{CA: d.ClientCA, Cert: d.ClientCert, Key: d.ClientKey, ServerName: name}
		if err := s.call(t.Context(), c); err != nil {
			t.Errorf("by the name %q: %v", name, err)
		}
	}
	if s.call(t.Context(), &certs.Client{CA: d.ClientCA}) == nil {
		t.Error("served without a certificate")
	}
	if _, second := made(now.AddDate(0, 11, 10)); second == first {
		t.Error("not made anew a month before the end")
	}
	weftest.WriteFile(t, filepath.Join(dir, "tls-dev"), "client-key.pem", []byte("broken"))
	d, _ = made(now)
	if err := serve(t, secret(t, weftest.NewAuthority(t, "x")), nil).call(t.Context(), &certs.Client{
		CA: d.ClientCA, Cert: d.ClientCert, Key: d.ClientKey,
	}); err == nil {
		t.Error("a server of another CA is trusted")
	}
}

// TestDevelopMakesAnew: a client that the server would refuse has all made anew, but nothing of somebody else is lost.
func TestDevelopMakesAnew(t *testing.T) {
	dir, other := t.TempDir(), t.TempDir()
	now := time.Now()
	d, err := certs.Develop(dir, now)
	if err != nil {
		t.Fatal(err)
	}
	foreign, err := certs.Develop(other, now)
	if err != nil {
		t.Fatal(err)
	}
	for from, to := range map[string]string{foreign.ClientCert: d.ClientCert, foreign.ClientKey: d.ClientKey} {
		if err := os.Rename(from, to); err != nil {
			t.Fatal(err)
		}
	}
	if d, err = certs.Develop(dir, now); err != nil {
		t.Fatal(err)
	}
	c := &certs.Client{CA: d.ClientCA, Cert: d.ClientCert, Key: d.ClientKey}
	if err := serve(t, read(t, d), nil).call(t.Context(), c); err != nil {
		t.Error(err)
	}
	notes := weftest.WriteFile(t, filepath.Dir(d.Cert), "notes", []byte("mine"))
	if _, err := certs.Develop(dir, now.AddDate(1, 0, 0)); err == nil || !strings.Contains(err.Error(), notes) {
		t.Errorf("made anew in the place of somebody's notes: %v", err)
	}
	if _, err := certs.Develop(dir, now); err != nil {
		t.Errorf("what was good is gone: %v", err)
	}
	if _, err := os.Stat(notes); err != nil {
		t.Error(err)
	}
}
