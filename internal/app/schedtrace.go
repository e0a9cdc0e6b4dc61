package app

import (
	"fmt"
	"log/slog"
	"os"
	"sync"

	"github.com/weftserve/weft/internal/config"
)

// traceFile is where the scheduler's events are recorded. The scheduler ignores errors of its trace, so traceFile logs
// them and returns the first from close.
type traceFile struct {
	log *slog.Logger

	mu    sync.Mutex // for a scheduler that is left behind when a stop was cut short goes on writing
	file  *os.File
	fault error // guarded by mu; the first. Nothing is written after it
}

// createTrace creates the file, and empties one that is there. Close it after the scheduler.
func createTrace(name string, log *slog.Logger) (*traceFile, error) {
	file, err := os.Create(config.Absolute(name))
	if err != nil {
		return nil, fmt.Errorf("--sched-trace: %w; name a file that this server may write", err)
	}
	return &traceFile{log: log, file: file}, nil
}

// Write records some events. After an error nothing is written any more: a trace with a gap cannot be replayed.
func (t *traceFile) Write(lines []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.fault != nil {
		return 0, t.fault
	}
	n, err := t.file.Write(lines)
	if err != nil {
		t.fault = fmt.Errorf("the scheduler trace is not complete: %w", err)
		t.log.Error("scheduler trace ended early", "event", "sched_trace_cut", "cause", err)
	}
	return n, t.fault
}

// cut is shell.Options.TraceCut. It is called once, if the file does not keep up with the scheduler.
func (t *traceFile) cut() {
	t.log.Error("scheduler trace ended early", "event", "sched_trace_cut",
		"cause", "the disk does not keep up; the file ends with a line that says so")
}

// close ends the file. The error is the first fault there was.
func (t *traceFile) close() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if err := t.file.Close(); t.fault == nil {
		t.fault = err
	}
	fault := t.fault
	if t.fault == nil {
		// A scheduler that was left behind may still write.
		t.fault = os.ErrClosed
	}
	return fault
}
