//go:build linux

package worker

import (
	"bytes"
	"log/slog"
	"slices"
	"sync"
)

// output takes what a worker writes to its standard error: log records, which go to the server's log, and what a
// library or Go's runtime says before the end; the first lines of that are kept.
type output struct {
	log *slog.Logger

	mu     sync.Mutex
	worker string   // guarded by mu, as is the rest; whose process it is; "": no worker's, or not yet
	pid    int      // of it
	rest   []byte   // a line that has not ended
	said   []string // lines that are no records
	dying  bool     // Go's runtime says which signal ends the process, and then its state
}

// keptLines and keptBytes bound what is kept of a process's words.
const (
	keptLines = 40
	keptBytes = 4 << 10
)

func newOutput(log *slog.Logger) *output { return &output{log: log} }

// of says whose process it is.
func (o *output) of(worker string, pid int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.worker, o.pid = worker, pid
}

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
		o.dying = o.dying || signalName.Match(line)
		if len(o.said) <= 3 && !o.dying { // the death is told with the signal
			o.log.Warn("engine process output", "event", "worker_output", "worker", o.worker, "pid", o.pid, "text",
				o.said[len(o.said)-1])
		}
	}
}

// last returns the lines that are no records.
func (o *output) last() []string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return slices.Clone(o.said)
}
