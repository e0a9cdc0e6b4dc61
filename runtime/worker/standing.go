//go:build linux

package worker

import (
	"time"

	"github.com/weftserve/weft/runtime/engine"
)

// history is what became of a worker's processes.
type history struct {
	deaths uint64
	last   time.Time // of the latest death
	cause  string    // of the latest death
	down   time.Time // since when there is no process that was there before; zero: there is one
}

// noteLocked notes that the worker's process is to be replaced, by nil if the next one is still to be started. Config.
// Changed is called soon after that.
func (w *Worker) noteLocked(next *process) {
	h, before := &w.history, w.process
	if before != nil && isDead(before.ended) {
		h.deaths++
		h.last, h.cause = time.Now(), before.cause.Text
		h.down = h.last
	}
	if next != nil {
		h.down = time.Time{}
	}
	w.tellChanged()
}

func (w *Worker) tellChanged() {
	if w.pool.cfg.Changed != nil {
		go w.pool.cfg.Changed()
	}
}

// standing returns the state of the session's process since the session was opened.
func (s *Session) standing() engine.Process {
	w := s.worker
	w.mu.Lock()
	defer w.mu.Unlock()
	p := engine.Process{Deaths: w.history.deaths - s.before}
	if p.Deaths > 0 {
		p.Last, p.Cause = w.history.last, w.history.cause
	}
	switch {
	case w.gone != nil: // its runs fail, and wait for nothing
	case w.process == nil:
		p.Down = w.history.down
	case isDead(w.process.ended):
		p.Down = time.Now() // it is noticed at this moment
	case !s.life.Load().isOpen():
		p.Down = w.history.last
	}
	return p
}
