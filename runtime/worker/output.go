//go:build linux

package worker

import (
	"bytes"
	"log/slog"
	"slices"
	"sync"
)

// output takes what a worker writes to its standard error: log records, which go to the server's log, and what a
// library or Go's runtime says before the end, of which the first lines are kept.
type output struct {
	log *slog.Logger

	mu   sync.Mutex
	rest []byte   // guarded by mu; a line that has not ended
	said []string // guarded by mu; lines that are no records
}

// keptLines and keptBytes bound what is kept of a process's words.
const (
	keptLines = 40
	keptBytes = 4 << 10
)

func newOutput(log *slog.Logger) *output { return &output{log: log} }

// Write takes the next bytes. It never fails.
func (o *output) Write(b []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.rest = append(o.rest, b...)
	for {
		line, rest, whole := bytes.Cut(o.rest, []byte("\n"))
		if !whole {
			if len(o.rest) > keptBytes {
				o.take(o.rest)
				o.rest = nil
			}
			return len(b), nil
		}
		o.take(line)
		o.rest = rest
	}
}

func (o *output) take(line []byte) {
	if relay(o.log, line) {
		return
	}
	if len(o.said) < keptLines && len(line) > 0 {
		o.said = append(o.said, string(line[:min(len(line), keptBytes)]))
		if len(o.said) <= 3 { // a stack of hundreds of lines follows the reason
			o.log.Warn("engine process output", "event", "worker_output", "text", o.said[len(o.said)-1])
		}
	}
}

// last returns the lines that are no records.
func (o *output) last() []string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return slices.Clone(o.said)
}
