package weftest

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
)

// Log is a handler that keeps the records it gets, for tests to look at. Its zero value is ready. Groups are ignored.
type Log struct {
	mu      sync.Mutex
	records []slog.Record // guarded by mu
}

// Enabled reports that everything is kept.
func (l *Log) Enabled(context.Context, slog.Level) bool { return true }

// WithGroup returns the log itself.
func (l *Log) WithGroup(string) slog.Handler { return l }

// WithAttrs returns a handler that adds attributes to the records that it keeps in this log.
func (l *Log) WithAttrs(attrs []slog.Attr) slog.Handler { return &with{l, attrs} }

// Handle keeps a record.
func (l *Log) Handle(_ context.Context, r slog.Record) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.records = append(l.records, r)
	return nil
}

// Records returns the records so far.
func (l *Log) Records() []slog.Record {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.records)
}

// Event returns the records of an event, those whose first attribute is event=name.
func (l *Log) Event(name string) []slog.Record {
	return slices.DeleteFunc(l.Records(), func(r slog.Record) bool { return Attr(r, "event").String() != name })
}

// Lines returns as text, "LEVEL key=value ...", the records whose text contains part. It leaves out the messages, which
// are for people.
func (l *Log) Lines(part string) (lines []string) {
	for _, r := range l.Records() {
		line := r.Level.String()
		r.Attrs(func(a slog.Attr) bool {
			line += " " + a.String()
			return true
		})
		if strings.Contains(line, part) {
			lines = append(lines, line)
		}
	}
	return lines
}

// Attr returns the value of a record's first attribute with that key; the zero value, which prints as <nil>, if it has
// none.
func Attr(r slog.Record, key string) (v slog.Value) {
	r.Attrs(func(a slog.Attr) bool {
		if a.Key == key {
			v = a.Value
		}
		return a.Key != key
	})
	return v
}

// with is a log for loggers that have attributes of their own.
type with struct {
	*Log

	attrs []slog.Attr
}

// WithAttrs implements slog.Handler.
func (w *with) WithAttrs(attrs []slog.Attr) slog.Handler {
	return &with{w.Log, slices.Concat(w.attrs, attrs)}
}

// Handle implements slog.Handler. The record is another logger's too, so that a copy gets the attributes.
func (w *with) Handle(ctx context.Context, r slog.Record) error {
	r = r.Clone()
	r.AddAttrs(w.attrs...)
	return w.Log.Handle(ctx, r)
}

// Children returns the processes that a process has started and that have not ended, on Linux.
func Children(parent int) (pids []int) {
	names, _ := filepath.Glob("/proc/[0-9]*/stat") // of all: the kernel's list of children may miss some
	for _, name := range names {
		text, err := os.ReadFile(name)
		if err != nil {
			continue // it has ended
		}
		_, rest, _ := strings.Cut(string(text), ") ") // from its state on
		// A zombie has ended, though nobody has waited for it yet.
		if fields := strings.Fields(rest); len(fields) > 1 && fields[0] != "Z" && fields[1] == strconv.Itoa(parent) {
			pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(name)))
			pids = append(pids, pid)
		}
	}
	return pids
}
