package app

import (
	"io"
	"log/slog"

	"github.com/weftserve/weft/internal/config"
)

var logLevels = map[config.LogLevel]slog.Level{
	"debug": slog.LevelDebug, "info": slog.LevelInfo, "warn": slog.LevelWarn, "error": slog.LevelError,
}

// newLogger returns a logger that writes as the settings say, from the level on, which may change.
func newLogger(w io.Writer, s *config.Server, level *slog.LevelVar) *slog.Logger {
	level.Set(logLevels[s.LogLevel])
	options := &slog.HandlerOptions{Level: level}
	w = printable{w}
	if s.LogFormat == "json" {
		return slog.New(slog.NewJSONHandler(w, options))
	}
	return slog.New(slog.NewTextHandler(w, options))
}
