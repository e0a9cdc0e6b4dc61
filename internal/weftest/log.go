package weftest

import (
	"context"
	"log/slog"
	"slices"
	"sync"
)

// Log is a handler that keeps what is logged. Its zero value is ready. Groups are left out.
type Log struct {
	mu      sync.Mutex
	records []slog.Record // guarded by mu
}

// Enabled reports that everything is kept.
func (l *Log) Enabled(context.Context, slog.Level) bool { return true }

// WithGroup returns the log itself.
func (l *Log) WithGroup(string) slog.Handler { return l }

// WithAttrs returns a handler that adds attributes to what it keeps in this log.
func (l *Log) WithAttrs(attrs []slog.Attr) slog.Handler { return &with{l, attrs} }

// Handle keeps a record.
func (l *Log) Handle(_ context.Context, r slog.Record) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.records = append(l.records, r)
	return nil
}

// Records returns what was logged so far.
func (l *Log) Records() []slog.Record {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.records)
}

// Count returns how often a message was logged.
func (l *Log) Count(message string) (n int) {
	for _, r := range l.Records() {
		if r.Message == message {
			n++
		}
	}
	return n
}

// with is a log for those who have attributes of their own.
type with struct {
	*Log

	attrs []slog.Attr
}

func (w *with) WithAttrs(attrs []slog.Attr) slog.Handler {
	return &with{w.Log, slices.Concat(w.attrs, attrs)}
}

func (w *with) Handle(ctx context.Context, r slog.Record) error {
	r = r.Clone()
	r.AddAttrs(w.attrs...)
	return w.Log.Handle(ctx, r)
}
