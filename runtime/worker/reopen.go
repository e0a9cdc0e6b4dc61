//go:build linux

package worker

import (
	"context"
	"errors"
	"fmt"
)

// life is a session's state in one process.
type life struct {
	process *process
	opened  chan struct{} // closed once it is open there, is known not to be, or the process is dead
	broken  error         // why it is not open; set before opened is closed
}

// openLife returns the life of a session that was opened.
func openLife(p *process) *life {
	l := &life{process: p, opened: make(chan struct{})}
	close(l.opened)
	return l
}

// isOpen reports whether runs can begin.
func (l *life) isOpen() bool { return isDead(l.opened) && l.broken == nil }

// openIn opens the session in a process, within the time that the first opening had.
func (s *Session) openIn(ctx context.Context, p *process) error {
	patience := s.worker.pool.patience
	ctx, cancel := context.WithTimeoutCause(ctx, patience, errOpening(patience))
	defer cancel()
	m, err := p.open(ctx, s.id, s.source)
	if err == nil && m.Opened == nil {
		err = errors.New("the engine's process did not say what it opened")
	}
	return err
}

// reopen begins a life of a session. One that was closed meanwhile is closed there, too.
func (w *Worker) reopen(s *Session, l *life) {
	err := s.acquit()
	if err == nil {
		err = s.openIn(context.Background(), l.process)
		if _, died := errors.AsType[*DeathError](err); died {
			s.suspect.Store(true)
			err = nil // the next life will show
		}
	}
	if err != nil {
		l.broken = fmt.Errorf("the model cannot be opened again: %w", err)
	}
	close(l.opened)
	w.tellChanged()
	w.mu.Lock()
	closed := w.sessions[s.id] == nil
	w.mu.Unlock()
	if closed {
		_ = l.process.closeSession(s.id)
	}
}

// acquit opens a suspect, which was being opened when the worker's process died, in a process where nothing else is.
// One that ends that process is guilty for good: the error is of the kind engine.Crashed.
func (s *Session) acquit() error {
	if guilty := s.guilty.Load(); guilty != nil {
		return *guilty
	}
	if !s.suspect.Load() {
		return nil
	}
	p, err := s.worker.pool.process(context.Background())
	if err != nil {
		return err
	}
	err = s.openIn(context.Background(), p)
	p.kill("the model was opened")
	<-p.ended
	cause, died := errors.AsType[*DeathError](err)
	switch {
	case died && cause.Outside:
		return nil // it remains a suspect
	case died:
		err = crashed(cause)
		s.guilty.Store(&err)
		return err
	}
	s.suspect.Store(false)
	return nil // whatever keeps it from being opened does so in the worker, too
}
