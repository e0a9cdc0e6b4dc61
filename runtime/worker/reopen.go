//go:build linux

package worker

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/weftserve/weft/runtime/engine"
)

// life is a session's state in one process.
type life struct {
	process *process
	opened  chan struct{} // closed once it is open there, is known not to be, or the process is dead
	broken  error         // why it is not open; set before opened is closed
	pause   time.Duration // before the next attempt if it is not
}

// The pauses before a model is opened again that could not be, although the process goes on.
const (
	firstReopening = time.Second
	maxReopening   = 5 * time.Minute
)

// newLife returns the life of a session that is to be opened, by an attempt that is not the first if that was failed.
func newLife(p *process, failed *life) *life {
	l := &life{process: p, opened: make(chan struct{}), pause: firstReopening}
	if failed != nil {
		l.pause = min(2*failed.pause, maxReopening)
	}
	return l
}

// openLife returns the life of a session that was opened.
func openLife(p *process) *life {
	l := newLife(p, nil)
	close(l.opened)
	return l
}

// isOpen reports whether runs can begin.
func (l *life) isOpen() bool { return isDead(l.opened) && l.broken == nil }

// openIn opens the session in a process, within the time that the first opening had.
func (s *Session) openIn(ctx context.Context, p *process) error {
	patience := s.worker.pool.patience
	ctx, cancel := p.clock.WithTimeoutCause(ctx, patience, errOpening(patience))
	defer cancel()
	m, err := p.open(ctx, s.id, s.source)
	if err == nil && m.Opened == nil {
		err = errors.New("the engine's process did not say what it opened")
	}
	return err
}

// openBeside opens the session in a process where others are, once its memory fits there.
func (s *Session) openBeside(ctx context.Context, p *process) error {
	p.openings.enter(s)
	opened, err := s.worker.admit(ctx, p, s)
	if err != nil {
		return err
	}
	defer opened()
	return s.openIn(ctx, p)
}

// reopen begins lives of sessions in a process, and does not wait for that. Those come first that take the most for a
// while: in that order they fit if they do in any.
func (w *Worker) reopen(p *process, lives map[*Session]*life) {
	all := slices.SortedFunc(maps.Keys(lives), func(a, b *Session) int {
		return cmp.Compare(b.took.peak-b.took.held, a.took.peak-a.took.held)
	})
	p.openings.enter(all...)
	for _, s := range all {
		go func() {
			s.again.Lock()
			defer s.again.Unlock()
			opened, err := w.admit(context.Background(), p, s)
			if err == nil {
				err = s.openAgain(lives[s])
				opened()
			}
			w.settle(s, lives[s], err)
		}()
	}
}

// doubt is held against a session that was being opened when the worker's process died.
type doubt struct {
	deaths int // processes in a row to which that happened
	cause  *DeathError
	until  time.Time // it is not opened before
}

// A session that can be opened by itself may still end processes that others are in. Or runs of others do, which are
// found out after far fewer deaths than maxDeaths. After so many in a row it is treated like one that cannot be opened.
const maxDeaths = 20

// doubted returns what is held against the session after another death.
func (s *Session) doubted(cause *DeathError) *doubt {
	d := &doubt{deaths: 1, cause: cause}
	if before := s.doubt.Load(); before != nil {
		d.deaths += before.deaths
	}
	if d.deaths >= maxDeaths {
		pause := firstReopening
		for range d.deaths - maxDeaths {
			pause = min(2*pause, maxReopening)
		}
		d.until = time.Now().Add(pause)
	}
	return d
}

// openAgain opens the session in the process of a life. If that dies there is no error, and the next life will show.
func (s *Session) openAgain(l *life) error {
	if d := s.doubt.Load(); d != nil && time.Until(d.until) > 0 {
		l.pause = time.Until(d.until)
		return fmt.Errorf("%d processes of %s in a row died while it was being opened there, although it can be opened by "+
			"itself: run it in a process of its own (isolation: model), or find what else ends them in the log "+
			"(worker_died); the latest: %w", d.deaths, s.worker.name, d.cause)
	}
	if err := s.probe(); err != nil {
		return err
	}
	err := s.openIn(context.Background(), l.process)
	if cause, died := errors.AsType[*DeathError](err); died {
		s.doubt.Store(s.doubted(cause))
		return nil
	}
	s.doubt.Store(nil)
	return err
}

// settle notes how the opening of a session ended. One that was closed meanwhile is closed there, too. One that could
// not be opened is tried again, unless it was found to end processes.
func (w *Worker) settle(s *Session, l *life, err error) {
	if err != nil && !isDead(l.process.ended) {
		l.broken = notOpen(err)
	}
	w.mu.Lock()
	closed := w.sessions[s.id] == nil
	close(l.opened) // from here on, closing the session closes it in the process
	w.mu.Unlock()
	w.tellChanged()
	switch {
	case closed && err == nil:
		_ = l.process.closeSession(s.id)
	case l.broken != nil && s.fatal.Load() == nil:
		time.AfterFunc(l.pause, func() { w.retry(s, l) })
	}
}

// notOpen is the error of a run of a session that could not be opened again.
func notOpen(err error) error {
	kind := engine.NotOpen
	if engine.KindOf(err) == engine.DeviceLost {
		kind = engine.DeviceLost // which is for all models there to learn
	}
	return &engine.Error{Kind: kind, Err: fmt.Errorf("the model cannot be opened again: %w", err)}
}

// retry begins another life of a session that could not be opened in a process.
func (w *Worker) retry(s *Session, failed *life) {
	next := newLife(failed.process, failed)
	w.mu.Lock()
	wanted := w.sessions[s.id] != nil && s.life.CompareAndSwap(failed, next)
	w.mu.Unlock()
	if wanted {
		w.reopen(next.process, map[*Session]*life{s: next})
	}
}

// probe opens a suspect, which was being opened when the worker's process died, in a process where nothing else is.
// One that ends that process is left out for good.
func (s *Session) probe() error {
	if fatal := s.fatal.Load(); fatal != nil {
		return fatal
	}
	if s.doubt.Load() == nil {
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
		return cause // that says nothing, and it is tried again after a pause
	case died:
		s.fatal.Store(cause)
		return cause
	}
	return nil // whatever keeps it from being opened does so in the worker, too
}
