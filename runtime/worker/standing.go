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
	up     time.Time // since when the latest process is there, or was
	loop   time.Time // of the first death after which none of the processes was there for steadyTime
}

// A process that has been there for steadyTime works. Where none has for as long, processes that are there for moments
// in between change nothing: they die again and again.
const steadyTime = time.Second

// dying reports whether the processes die again and again.
func (h *history) dying() bool {
	return h.last.Sub(h.loop) >= steadyTime && time.Since(h.up) < steadyTime
}

// noteLocked notes that the worker's process is to be replaced, by nil if the next one is still to be started. Config.
// Changed is called soon after that, and once a process works where others died again and again.
func (w *Worker) noteLocked(next *process) {
	h, before := &w.history, w.process
	if before != nil && isDead(before.ended) {
		h.last, h.cause = time.Now(), before.cause.Text
		if h.deaths == 0 || h.last.Sub(h.up) >= steadyTime {
			h.loop = h.last
		}
		h.deaths++
		h.down = h.last
	}
	if next != nil {
		h.down, h.up = time.Time{}, time.Now()
		if h.dying() {
			time.AfterFunc(steadyTime, w.tellChanged)
		}
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
	case w.process != nil && isDead(w.process.ended):
		p.Down = time.Now() // it is noticed at this moment
	case w.process == nil, !s.life.Load().isOpen(), w.history.dying():
		p.Down = w.history.loop
	}
	return p
}
