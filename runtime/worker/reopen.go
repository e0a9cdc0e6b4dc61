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

// openLife returns the life of a session that was opened, or could not be.
func openLife(p *process, broken error) *life {
	l := &life{p, make(chan struct{}), broken}
	close(l.opened)
	return l
}

// isOpen reports whether runs can begin.
func (l *life) isOpen() bool { return isDead(l.opened) && l.broken == nil }

// openIn opens the session in a process.
func (s *Session) openIn(ctx context.Context, p *process) error {
	m, err := p.open(ctx, s.id, s.source)
	if err == nil && m.Opened == nil {
		err = errors.New("the engine's process did not say what it opened")
	}
	return err
}

// reopen begins a life of a session. One that was closed meanwhile is closed there, too.
func (w *Worker) reopen(s *Session, l *life) {
	err := s.fatal.Load()
	if err == nil {
		failed := s.openIn(context.Background(), l.process)
		if _, died := errors.AsType[*DeathError](failed); failed != nil && !died {
			l.broken = cannotReopen(failed)
		}
	} else {
		l.broken = *err
	}
	close(l.opened)
	w.tellChanged()
	w.mu.Lock()
	closed := w.sessions[s.id] == nil
	w.mu.Unlock()
	if closed {
		_, _ = l.process.ask(context.Background(), &message{Kind: closeMessage, ID: s.id})
	}
}

// reopenAlone opens the sessions in a new process one after the other, where nothing runs. One that ends the process is
// not opened again. The error says that it died.
func (w *Worker) reopenAlone(p *process) error {
	for _, s := range w.list() {
		if s.fatal.Load() != nil {
			continue
		}
		err := s.openIn(context.Background(), p)
		if cause, died := errors.AsType[*DeathError](err); died {
			if !cause.Outside {
				fatal := cannotReopen(crashed(cause))
				s.fatal.Store(&fatal)
			}
			return err
		}
		if err != nil {
			err = cannotReopen(err)
		}
		s.life.Store(openLife(p, err))
	}
	return nil
}

func cannotReopen(err error) error { return fmt.Errorf("the model cannot be opened again: %w", err) }
