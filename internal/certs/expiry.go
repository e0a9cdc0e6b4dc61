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

const (
	// warnBefore is how long before its end a certificate is first warned of.
	warnBefore = 14 * 24 * time.Hour
	// warnAgain is how often after that.
	warnAgain = 24 * time.Hour
)

// expiry warns of certificates that expire.
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

// look warns of what expires soon, or has. It is for one goroutine. Each certificate is warned of once a day, and at
// once when it has expired or was replaced by one that expires soon, too: a log that is read once a day has the
// warning.
func (e *expiry) look(now time.Time, m *material) {
	if e.told == nil {
		e.told = map[string]notice{}
	}
	for role, c := range m.first() {
		left := c.NotAfter.Sub(now)
		is := notice{c.SerialNumber.Text(16), left <= 0, now}
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
