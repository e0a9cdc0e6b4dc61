//go:build linux

package worker

import (
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"maps"
	"slices"
)

// newLogger returns the logger of a worker: its records are lines of JSON, which relay reads.
func newLogger(w io.Writer) *slog.Logger {
	return slog.New(slog.NewJSONHandler(w, &slog.HandlerOptions{Level: slog.LevelDebug}))
}

// relay logs a line if it is a record of a worker, and reports whether it is.
func relay(log *slog.Logger, line []byte) bool {
	var fields map[string]any
	if json.Unmarshal(line, &fields) != nil {
		return false
	}
	text, is := fields[slog.MessageKey].(string)
	var level slog.Level
	if name, _ := fields[slog.LevelKey].(string); !is || level.UnmarshalText([]byte(name)) != nil {
		return false
	}
	event := fields["event"]
	for _, key := range []string{slog.TimeKey, slog.MessageKey, slog.LevelKey, "event"} {
		delete(fields, key)
	}
	attrs := []slog.Attr{slog.Any("event", event)}
	for _, key := range slices.Sorted(maps.Keys(fields)) {
		attrs = append(attrs, slog.Any(key, fields[key]))
	}
	log.LogAttrs(context.Background(), level, text, attrs...)
	return true
}
