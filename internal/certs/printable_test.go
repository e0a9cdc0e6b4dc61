package certs

import (
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"log/slog"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/weftserve/weft/internal/weftest"
)

// TestPrintable: whatever bytes a caller has written into its certificate, the log has one line of ASCII of them.
func TestPrintable(t *testing.T) {
	const seed = 11
	random := rand.New(rand.NewPCG(seed, seed))
	var log weftest.Log
	f := failures{log: slog.New(&log)}
	now := time.Unix(0, 0)
	for range 2000 {
		raw := make([]byte, random.IntN(600))
		for i := range raw {
			raw[i] = byte(random.IntN(256))
		}
		now = now.Add(time.Second)
		theirs := &x509.Certificate{Subject: pkix.Name{CommonName: string(raw)}}
		f.note("listen", string(raw), &tls.CertificateVerificationError{
			UnverifiedCertificates: []*x509.Certificate{theirs},
			Err:                    errors.New("x509: certificate of " + string(raw) + " signed by unknown authority"),
		}, now)
	}
	lines := log.Lines("")
	if len(lines) != 2000 {
		t.Errorf("%d lines", len(lines))
	}
	for _, line := range lines {
		if strings.ContainsFunc(line, func(r rune) bool { return r < ' ' || r > '~' }) || len(line) > 4000 {
			t.Fatalf("logged %q", line)
		}
	}
}

// TestFewLines: failures are told four times a second, and the next line has the number of the others.
func TestFewLines(t *testing.T) {
	var log weftest.Log
	f := failures{log: slog.New(&log)}
	begin := time.Unix(1000, 0)
	for i := range 100 {
		f.note("listen", "peer", errors.New("certificate has expired"), begin.Add(time.Duration(i)*5*time.Millisecond))
	}
	f.note("listen", "peer", errors.New("certificate has expired"), begin.Add(time.Second))
	lines := log.Event("tls_handshake_failed")
	if len(lines) != toldPerSecond+1 || weftest.Attr(lines[toldPerSecond], "others_since").Int64() != 100-toldPerSecond {
		t.Errorf("told %q", log.Lines(""))
	}
	if n := f.counts()["expired"]; n != 101 {
		t.Errorf("counted %d", n)
	}
}
