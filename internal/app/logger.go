package app

import (
	"io"
	"log/slog"

	"github.com/weftserve/weft/internal/config"
	"github.com/weftserve/weft/internal/telemetry"
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
		options.ReplaceAttr = inSeconds
		return slog.New(telemetry.LogHandler(slog.NewJSONHandler(w, options)))
	}
	return slog.New(telemetry.LogHandler(slog.NewTextHandler(w, options)))
}

// inSeconds has durations say their unit where a program reads them, to which they would be plain numbers: took is
// took_seconds there.
func inSeconds(_ []string, a slog.Attr) slog.Attr {
	if a.Value.Kind() == slog.KindDuration {
		return slog.Float64(a.Key+"_seconds", a.Value.Duration().Seconds())
	}
	return a
}
