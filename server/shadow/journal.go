package shadow

import (
	"bytes"
	"io"
	"log/slog"
	"sync"
	"sync/atomic"
)

// maxJournalBytes bounds the lines that wait for the writer; as many may be in its hands.
const maxJournalBytes = 1 << 20

// journal hands lines to a writer that may be slow, block or fail, without ever waiting for it. Its goroutine lives
// only while there are lines: it is started by add, and ends itself when it finds none, under mu, so that no line is
// left behind.
type journal struct {
	w          io.Writer
	log        *slog.Logger
	goroutines *sync.WaitGroup
	lost       atomic.Int64 // lines
	writing    atomic.Bool  // the goroutine runs

	mu     sync.Mutex
	queued []byte // whole lines

	// The following belong to the goroutine.
	failing bool
	torn    bool // the last write ended within a line
}

// add queues a line, or loses it where too many wait.
func (j *journal) add(line []byte) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if len(j.queued)+len(line) > maxJournalBytes {
		j.lost.Add(1)
		return
	}
	j.queued = append(j.queued, line...)
	if j.writing.CompareAndSwap(false, true) {
		j.goroutines.Go(j.drain)
	}
}

// drain writes what is queued, again and again, until nothing is. The two buffers take turns: lines are added to one
// while the other is written. A writer that fails is complained about once, until it succeeds again.
func (j *journal) drain() {
	var text []byte
	for {
		j.mu.Lock()
		text, j.queued = j.queued, text[:0]
		j.writing.Store(len(text) > 0)
		j.mu.Unlock()
		if len(text) == 0 {
			return
		}
		lost, err := j.write(text)
		if err != nil && !j.failing {
			j.log.Warn("shadow log write failed", "event", "shadow_log_failed",
				"effect", "lines are lost until a write succeeds", "cause", err)
		}
		j.failing = err != nil
		j.lost.Add(lost)
	}
}

// write returns how many of the lines were not written whole. A line that was cut short is ended before the next one,
// so that it spoils no other.
func (j *journal) write(lines []byte) (lost int64, err error) {
	n := int64(0)
	if j.torn {
		_, err = j.w.Write([]byte{'\n'})
	}
	if err == nil {
		n, err = bytes.NewReader(lines).WriteTo(j.w)
		j.torn = n > 0 && lines[n-1] != '\n'
	}
	return int64(bytes.Count(lines[n:], []byte{'\n'})), err
}
