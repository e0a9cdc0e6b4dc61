package app

import (
	"bufio"
	"fmt"
	"log/slog"
	"os"
	"sync"
)

// traceFile is where the scheduler's events are recorded. The scheduler writes with its lock held, so that most writes end in
// memory, and takes no notice of a fault, so that it is told here.
type traceFile struct {
	log *slog.Logger

	mu     sync.Mutex // for a scheduler that is left behind when a stop was cut short goes on writing
	file   *os.File
	buffer *bufio.Writer // guarded by mu
	fault  error         // guarded by mu; the first. Nothing is written after it
}

// createTrace makes the file anew. It must be closed, after the scheduler.
func createTrace(name string, log *slog.Logger) (*traceFile, error) {
	file, err := os.Create(name)
	if err != nil {
		return nil, fmt.Errorf("sched-trace: %w", err)
	}
	return &traceFile{log: log, file: file, buffer: bufio.NewWriterSize(file, 1<<16)}, nil
}

// Write records one event.
func (t *traceFile) Write(line []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.fault != nil {
		return 0, t.fault
	}
	n, err := t.buffer.Write(line)
	if err != nil {
		t.fault = fmt.Errorf("the scheduler trace is not complete: %w", err)
		t.log.Error("the scheduler is recorded no longer", "cause", err)
	}
	return n, t.fault
}

// close writes what is left. The error is the first fault there was.
func (t *traceFile) close() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.fault == nil {
		t.fault = t.buffer.Flush()
	}
	if err := t.file.Close(); t.fault == nil {
		t.fault = err
	}
	fault := t.fault
	if t.fault == nil {
		t.fault = os.ErrClosed
	}
	return fault
}
