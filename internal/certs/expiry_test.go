package certs

import (
	"crypto/tls"
	"crypto/x509"
	"log/slog"
	"math/big"
	"slices"
	"testing"
	"time"

	"github.com/weftserve/weft/internal/weftest"
)

// TestExpiry: a certificate is warned of from 14 days before its end, daily, and at once when it has expired.
func TestExpiry(t *testing.T) {
	end := time.Date(2030, 1, 31, 12, 0, 0, 0, time.UTC)
	of := func(serial int64, end time.Time) *x509.Certificate {
		return &x509.Certificate{SerialNumber: big.NewInt(serial), NotAfter: end}
	}
	m := &material{
		pair: &tls.Certificate{Leaf: of(1, end)},
		cas:  []*x509.Certificate{of(2, end.AddDate(1, 0, 0)), of(3, end.AddDate(0, 6, 0))},
	}
	var log weftest.Log
	e := expiry{log: slog.New(&log)}
	var told []string
	look := func(before time.Duration) {
		seen := len(log.Records())
		e.look(end.Add(-before), m)
		for _, r := range log.Records()[seen:] {
			told = append(told, before.String()+" "+weftest.Attr(r, "event").String()+" "+weftest.Attr(r, "role").String())
		}
	}
	for before := 20 * 24 * time.Hour; before > 13*24*time.Hour+time.Hour; before -= time.Minute {
		look(before)
	}
	look(time.Hour)
	for before := time.Minute; before > -25*time.Hour; before -= time.Minute {
		look(before)
	}
	m.pair.Leaf = of(4, end.AddDate(0, 0, 13))
	look(-26 * time.Hour)
	look(-(197 * 24) * time.Hour)
	want := []string{
		"336h0m0s certificate_expiring server", "1h0m0s certificate_expiring server",
		"0s certificate_expired server", "-24h0m0s certificate_expired server",
		"-26h0m0s certificate_expiring server",
		"-4728h0m0s certificate_expired server", "-4728h0m0s certificate_expired client_ca",
	}
	slices.Sort(told)
	slices.Sort(want)
	if !slices.Equal(told, want) {
		t.Errorf("told\n%q, want\n%q", told, want)
	}
}
