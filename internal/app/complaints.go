package app

import (
	"context"
	"log/slog"
	"strings"

	"github.com/weftserve/weft/internal/certs"
)

// complaints puts what net/http says of connections into the log.
type complaints struct {
	slog.Handler // of the log

	certs *certs.Keeper // nil: there is no TLS
}

// Enabled implements slog.Handler: what is said decides.
func (complaints) Enabled(context.Context, slog.Level) bool { return true }

// Handle implements slog.Handler.
func (c complaints) Handle(_ context.Context, r slog.Record) error {
	if failed, is := strings.CutPrefix(r.Message, "http: TLS handshake error from "); is && c.certs != nil {
		peer, cause, _ := strings.Cut(failed, ": ")
		c.certs.Failed("http", peer, cause)
		return nil
	}
	log := slog.New(c.Handler)
	log.Debug("HTTP connection failed", "event", "http_connection_failed", "cause", r.Message)
	return nil
}
