package certs

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"net"
	"strconv"
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc/credentials"
)

// toldPerSecond bounds the log lines about handshakes: anybody who reaches a listener can make them fail.
const toldPerSecond = 4

// failures counts and logs the handshakes that failed. All listeners of a server share one, and its bound.
type failures struct {
	log *slog.Logger

	// mu is held to count, and not while the log is written.
	mu     sync.Mutex
	second time.Time         // guarded by mu; when the present second began
	told   int               // guarded by mu; in that second
	others int               // guarded by mu; not told since the last line
	ended  map[string]uint64 // guarded by mu; by reason
}

// note logs and counts a failure. A caller that only went away, as probes of ports do, is logged at level debug, which
// the bound does not count. A line says how many failures were left out since the previous one.
func (f *failures) note(listener, peer string, cause error, now time.Time) {
	why := reasonOf(cause)
	level := slog.LevelWarn
	if why.name == reasonClosed {
		level = slog.LevelDebug
	}
	f.mu.Lock()
	if f.ended == nil {
		f.ended = map[string]uint64{}
	}
	f.ended[why.name]++
	// Seconds begin with a failure, so that a burst has at most twice as many lines in any second.
	if now.Sub(f.second) >= time.Second {
		f.second, f.told = now, 0
	}
	// others counts what was left out since the last line that was written.
	tell := f.told < toldPerSecond
	others := f.others
	switch {
	case level < slog.LevelInfo:
		tell = true
	case tell:
		f.told++
		f.others = 0
	default:
		f.others++
	}
	// The log is written without the lock: a slow one must not hold up handshakes.
	f.mu.Unlock()
	if tell {
		f.log.Log(context.Background(), level, "TLS handshake failed", "event", "tls_handshake_failed",
			"listener", listener, "peer", printable(peer), "reason", why.name, "cause", printable(cause.Error()),
			"certificate", subjectOf(cause), "remedy", why.server, "others_since", others)
	}
}

// counts returns how many handshakes failed, by reason.
func (f *failures) counts() map[string]uint64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	return maps.Clone(f.ended)
}

// watched are the credentials of a server that report failed handshakes. gRPC closes such connections and logs nothing,
// so that the owner of a wrong certificate would learn of it before the operator.
type watched struct {
	credentials.TransportCredentials

	// All listeners share the failures; the clones of credentials do, too.
	failures *failures
	listener string
}

// ServerHandshake implements credentials.TransportCredentials.
func (w *watched) ServerHandshake(raw net.Conn) (net.Conn, credentials.AuthInfo, error) {
	c, info, err := w.TransportCredentials.ServerHandshake(raw)
	if err != nil && !errors.Is(err, credentials.ErrConnDispatched) {
		w.failures.note(w.listener, raw.RemoteAddr().String(), err, time.Now())
	}
	return c, info, err
}

// Clone implements credentials.TransportCredentials.
func (w *watched) Clone() credentials.TransportCredentials {
	return &watched{w.TransportCredentials.Clone(), w.failures, w.listener}
}

// longest is how much of a text that a caller chose goes into a log line, in bytes.
const longest = 300

// printable makes a text that a caller may have chosen, such as a name in its certificate, safe for a log line: it is
// cut, and control characters and non-ASCII characters are escaped. Quotation marks stay, since the log escapes them
// itself.
func printable(s string) string {
	if len(s) > longest {
		s = strings.ToValidUTF8(s[:longest], "") + "..."
	}
	quoted := strconv.QuoteToASCII(s)
	return strings.ReplaceAll(quoted[1:len(quoted)-1], `\"`, `"`)
}
