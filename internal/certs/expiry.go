package certs

import (
	"log/slog"
	"time"
)

// Roles of certificates.
const (
	roleServer   = "server"
	roleClientCA = "client_ca"
)

// Times of the warnings: long enough before the end for a renewal that needs people, and often enough that each day's
// log has one.
const (
	// warnBefore is how long before its end a certificate is first warned of.
	warnBefore = 14 * 24 * time.Hour
	// warnAgain is the time between two warnings of the same certificate.
	warnAgain = 24 * time.Hour
)

// expiry warns of certificates that expire. Its methods are for one goroutine.
type expiry struct {
	log  *slog.Logger
	told map[string]notice // by role
}

// notice is the last warning of a certificate.
type notice struct {
	serial  string
	expired bool
	at      time.Time
}

// look warns of certificates that expire soon, or have expired. It warns of each once a day, so that a log that is read
// once a day has the warning. It warns at once when a certificate expires, or when its replacement expires soon, too.
func (e *expiry) look(now time.Time, m *material) {
	if e.told == nil {
		e.told = map[string]notice{}
	}
	for role, c := range m.first() {
		left := c.NotAfter.Sub(now)
		is := notice{c.SerialNumber.Text(16), left <= 0, now}
		// The serial number tells a renewed certificate from the one before.
		if before := e.told[role]; left > warnBefore ||
			before.serial == is.serial && before.expired == is.expired && now.Sub(before.at) < warnAgain {
			continue
		}
		e.told[role] = is
		if is.expired {
			e.log.Error("certificate expired", "event", "certificate_expired", "role", role, "subject", subject(c),
				"serial", is.serial, "expired", date(c.NotAfter),
				"effect", "handshakes fail", "remedy", "renew it: the files are read when they change")
			continue
		}
		e.log.Warn("certificate expires soon", "event", "certificate_expiring", "role", role, "subject", subject(c),
			"serial", is.serial, "expires", date(c.NotAfter), "left", left.Round(time.Minute),
			"remedy", "renew it: the files are read when they change")
	}
}
