package shell

import (
	"io"

	"github.com/weftserve/weft/sharedsched"
	"github.com/weftserve/weft/sharedsched/trace"
)

// recorder writes a trace of every event of a Scheduler with its result. Under the Scheduler's lock lines are only
// appended to memory; a goroutine writes them outside of it. Where the writer does not keep up the trace is cut, so
// that the scheduler need not wait and memory does not grow: the lines recorded until then are still written, then a
// line that says so.
type recorder struct {
	wake chan struct{} // capacity 1: there is something to write, or the end
	done chan struct{} // closed when all is written
	told func()        // of the cut; may be nil

	// The rest is guarded by Scheduler.mu. Lines are written while others gather: there are never more than two times
	// room, and a line, in memory.
	lines  lines
	trace  trace.Writer // into lines
	room   int          // bytes that may wait
	over   bool         // nothing more is recorded: it was cut, its writer failed, or it was closed
	closed bool
}

// traceRoom is how many bytes of a trace may wait for its writer, while as many again may be in its hands: some seconds
// of a disk that stalls, at a few thousand requests per second of about 1 kB each.
const traceRoom = 16 << 20

// lines are whole lines that wait to be written.
type lines []byte

// Write appends; it never fails.
func (l *lines) Write(line []byte) (int, error) {
	*l = append(*l, line...)
	return len(line), nil
}

// newRecorder begins a trace with the configuration, nil where none is asked for.
func newRecorder(cfg *sharedsched.Config, given *Options) *recorder {
	if given.Trace == nil {
		return nil
	}
	r := &recorder{wake: make(chan struct{}, 1), done: make(chan struct{}), told: given.TraceCut, room: traceRoom}
	r.trace = trace.NewWriter(&r.lines, cfg)
	signal(r.wake)
	return r
}

// recordLocked appends an event. It never waits.
func (r *recorder) recordLocked(
	now sharedsched.Time, ev *sharedsched.Event, out *sharedsched.Answer, first int, err error,
) {
	switch {
	case r.over:
		return
	case len(r.lines) > r.room:
		r.over = true
		r.trace.Cut(now)
		if r.told != nil {
			go r.told() // the goroutine that writes may be stuck for good
		}
	default:
		r.trace.Event(now, ev, out, first, err)
	}
	signal(r.wake)
}

// record is the life of the goroutine that writes the trace. An error of the writer is its owner's to find: a scheduler
// goes on without a trace.
func (s *Scheduler) record(w io.Writer) {
	r := s.recorder
	defer close(r.done)
	var failed bool
	for spare := lines(nil); ; {
		s.mu.Lock()
		written, closed := r.lines, r.closed
		r.lines = spare[:0]
		r.over = r.over || failed
		s.mu.Unlock()
		switch {
		case len(written) > 0 && !failed:
			_, err := w.Write(written)
			failed = err != nil
		case closed:
			return
		default:
			<-r.wake
		}
		spare = written
	}
}

// closeTrace writes the remaining lines and ends the trace.
func (s *Scheduler) closeTrace() {
	if s.recorder == nil {
		return
	}
	s.mu.Lock()
	s.recorder.over, s.recorder.closed = true, true
	s.mu.Unlock()
	signal(s.recorder.wake)
	<-s.recorder.done
}

// signal wakes the goroutine that waits for c, which has capacity 1: a wake-up while awake is remembered once, which is
// enough.
func signal(c chan<- struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
