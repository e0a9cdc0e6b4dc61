package sharedsched

import (
	"encoding/json"
	"io"
)

// trace records every event of a Scheduler, and what came of it, as lines of JSON for Replay. Under the Scheduler's
// lock lines are only appended to memory; a goroutine writes them outside of it. Where the writer does not keep up the
// trace is cut, rather than that the scheduler waits for it or memory grows: what has been recorded until then is still
// written, then a line that says so.
type trace struct {
	wake chan struct{} // capacity 1: there is something to write, or the end
	done chan struct{} // closed when all is written
	told func()        // of the cut; may be nil

	// The rest is guarded by Scheduler.mu. Lines are written while others gather: there are never more than two times
	// room, and a line, in memory.
	lines   traceLines
	encoder *json.Encoder // into lines
	room    int           // bytes that may wait
	over    bool          // nothing more is recorded: it was cut, its writer failed, or it was closed
	closed  bool
}

// traceLines are whole lines that wait to be written.
type traceLines []byte

// Write appends; it never fails.
func (l *traceLines) Write(line []byte) (int, error) {
	*l = append(*l, line...)
	return len(line), nil
}

// newTrace begins a trace with the configuration, nil where none is asked for.
func newTrace(cfg *Config) *trace {
	if cfg.Trace == nil {
		return nil
	}
	t := &trace{wake: make(chan struct{}, 1), done: make(chan struct{}), told: cfg.TraceCut, room: traceRoom}
	t.encoder = json.NewEncoder(&t.lines)
	t.appendLocked(&traceLine{Op: traceConfig, Config: cfg})
	return t
}

// recordLocked appends an event. It never waits.
func (t *trace) recordLocked(now Time, ev *Event, out *Answer, first int, err error) {
	switch {
	case t.over:
	case len(t.lines) > t.room:
		t.over = true
		t.appendLocked(&traceLine{Op: traceCut, At: now})
		if t.told != nil {
			go t.told() // the goroutine that writes may be stuck for good
		}
	default:
		l := newTraceLine(now, ev, out, first, err)
		t.appendLocked(&l)
	}
}

// appendLocked adds a line to those that wait to be written.
func (t *trace) appendLocked(l *traceLine) {
	_ = t.encoder.Encode(l) //nolint:errchkjson // no weight or factor is infinite or not a number: they are validated
	signal(t.wake)
}

// writeTrace is the life of the goroutine that writes the trace. An error of the writer is its owner's to find: a
// scheduler goes on without a trace.
func (s *Scheduler) writeTrace(w io.Writer) {
	t := s.trace
	defer close(t.done)
	var failed bool
	for spare := traceLines(nil); ; {
		s.mu.Lock()
		lines, closed := t.lines, t.closed
		t.lines = spare[:0]
		t.over = t.over || failed
		s.mu.Unlock()
		switch {
		case len(lines) > 0 && !failed:
			_, err := w.Write(lines)
			failed = err != nil
		case closed:
			return
		default:
			<-t.wake
		}
		spare = lines
	}
}

// closeTrace writes what is left and ends the trace.
func (s *Scheduler) closeTrace() {
	if s.trace == nil {
		return
	}
	s.mu.Lock()
	s.trace.over, s.trace.closed = true, true
	s.mu.Unlock()
	signal(s.trace.wake)
	<-s.trace.done
}

// signal wakes whoever waits for c, which has capacity 1: a wake-up while awake is remembered once, which is enough.
func signal(c chan<- struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
