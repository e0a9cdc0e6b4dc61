package shadow

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"sync"
)

// maxJournalBytes bounds the lines that wait for the writer; as many may be in its hands.
const maxJournalBytes = 1 << 20

// journal hands lines to a writer that may be slow, block or fail, without ever waiting for it. Its goroutine lives
// only while there are lines.
type journal struct {
	w   io.Writer
	log *slog.Logger

	mu     sync.Mutex
	queued []byte        // whole lines
	idle   chan struct{} // closed when the goroutine ends; nil while there is none
	lost   int64

	// The following belong to the goroutine.
	failing bool
	torn    bool // the last write ended within a line
}

// add queues a line, or loses it.
func (j *journal) add(line []byte) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if len(j.queued)+len(line) > maxJournalBytes {
		j.lost++
		return
	}
	j.queued = append(j.queued, line...)
	if j.idle == nil {
		j.idle = make(chan struct{})
		go j.drain()
	}
}

func (j *journal) drain() {
	var text []byte
	for {
		j.mu.Lock()
		text, j.queued = j.queued, text[:0]
		if len(text) == 0 {
			close(j.idle)
			j.idle = nil
			j.mu.Unlock()
			return
		}
		j.mu.Unlock()
		lost, err := j.write(text)
		if err != nil && !j.failing {
			j.log.Warn("shadow log write failed", "event", "shadow_log_failed",
				"effect", "lines are lost until a write succeeds", "cause", err)
		}
		j.failing = err != nil
		j.mu.Lock()
		j.lost += lost
		j.mu.Unlock()
	}
}

// write returns how many of the lines were not written whole. A line that was cut short is ended before the next one,
// so that it spoils no other.
func (j *journal) write(lines []byte) (lost int64, err error) {
	n := 0
	if j.torn {
		_, err = j.w.Write([]byte{'\n'})
	}
	if err == nil {
		n, err = j.w.Write(lines)
		if err == nil && n < len(lines) {
			err = io.ErrShortWrite
		}
		j.torn = n > 0 && lines[n-1] != '\n'
	}
	return int64(bytes.Count(lines[n:], []byte{'\n'})), err
}

func (j *journal) lostLines() int64 {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.lost
}

// flush waits until all lines were handed to the writer.
func (j *journal) flush(ctx context.Context) error {
	j.mu.Lock()
	idle := j.idle
	j.mu.Unlock()
	if idle == nil {
		return nil
	}
	select {
	case <-idle:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("the log of shadows was not written to its end: %w", context.Cause(ctx))
	}
}
