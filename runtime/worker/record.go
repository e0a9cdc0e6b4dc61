//go:build linux

package worker

import (
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"time"
)

// span ends the keys of durations, which JSON has no word for, on their way to relay.
const span = ":duration"

// newLogger returns the logger of a worker: its records are lines of JSON, which relay reads.
func newLogger(w io.Writer) *slog.Logger {
	mark := func(_ []string, a slog.Attr) slog.Attr {
		if a.Value.Kind() == slog.KindDuration {
			a.Key += span
		}
		return a
	}
	return slog.New(slog.NewJSONHandler(w, &slog.HandlerOptions{Level: slog.LevelDebug, ReplaceAttr: mark}))
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
	ctx := context.Background()
	if !log.Enabled(ctx, level) {
		return true
	}
	r := slog.NewRecord(time.Now(), level, text, 0)
	r.AddAttrs(slog.Any("event", fields["event"]))
	for _, key := range []string{slog.TimeKey, slog.MessageKey, slog.LevelKey, "event"} {
		delete(fields, key)
	}
	for _, key := range slices.Sorted(maps.Keys(fields)) {
		name, is := strings.CutSuffix(key, span)
		if nanoseconds, number := fields[key].(float64); is && number {
			r.AddAttrs(slog.Duration(name, time.Duration(nanoseconds)))
			continue
		}
		r.AddAttrs(slog.Any(key, fields[key]))
	}
	_ = log.Handler().Handle(ctx, r) // there is nowhere to say that the log cannot be written
	return true
}
