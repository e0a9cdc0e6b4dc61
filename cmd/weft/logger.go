package main

import (
	"io"
	"log/slog"

	"github.com/weftserve/weft/internal/config"
)

// newLogger returns a logger that writes as the settings say.
func newLogger(w io.Writer, s *config.Server) *slog.Logger {
	levels := map[config.LogLevel]slog.Level{
		"debug": slog.LevelDebug, "info": slog.LevelInfo, "warn": slog.LevelWarn, "error": slog.LevelError,
	}
	options := &slog.HandlerOptions{Level: levels[s.LogLevel]}
	if s.LogFormat == "json" {
		return slog.New(slog.NewJSONHandler(w, options))
	}
	return slog.New(slog.NewTextHandler(w, options))
}
