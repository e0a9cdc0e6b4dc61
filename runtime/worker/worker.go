//go:build linux

package worker

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/weftserve/weft/runtime/engine"
)

// Worker supervises one process at a time and the sessions in it.
type Worker struct {
	name       string
	device     string
	pool       *Pool
	quarantine *quarantine

	mu       sync.Mutex
	process  *process            // guarded by mu, as is the rest; nil while the next one is being started
	changed  chan struct{}       // closed, and another one, when process or gone changes
	gone     error               // why there is no next process
	sessions map[uint32]*Session // those that are open
	last     uint32              // number of the latest session
	history  history             // of its processes
}

// restartPatience is how long a run waits for its worker to be started again.
const restartPatience = 10 * time.Second

// present returns the process, and waits for a while if there is none.
func (w *Worker) present(ctx context.Context) (*process, error) {
	var late <-chan time.Time
	for {
		w.mu.Lock()
		p, gone, changed := w.process, w.gone, w.changed
		w.mu.Unlock()
		switch {
		case gone != nil:
			return nil, gone
		case p != nil && !isDead(p.ended):
			return p, nil
		}
		if late == nil {
			late = time.After(restartPatience)
		}
		select {
		case <-changed:
		case <-late:
			return nil, &engine.Error{
				Kind: engine.Terminated, Err: fmt.Errorf("the engine's process %s is still being started again", w.name),
			}
		case <-ctx.Done():
			return nil, &engine.Error{Kind: engine.Terminated, Err: context.Cause(ctx)}
		}
	}
}

// up reports whether runs can begin now.
func (w *Worker) up() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.process != nil && !isDead(w.process.ended)
}

func (w *Worker) setLocked(p *process) {
	w.noteLocked(p)
	w.process = p
	close(w.changed)
	w.changed = make(chan struct{})
}

// add opens a model, which opened elsewhere as first, in the worker's process.
func (w *Worker) add(ctx context.Context, of source, first *opened) (*Session, error) {
	w.mu.Lock()
	w.last++
	s := &Session{id: w.last, worker: w, source: of, first: first, before: w.history.deaths}
	w.mu.Unlock()
	s.memory = &memory{worker: w, slabs: map[*byte]*slab{}}
	s.stats.Store(&first.Stats)
	for {
		p, err := w.present(ctx)
		if err != nil {
			return nil, err
		}
		if err := s.openIn(ctx, p); err != nil {
			if _, died := errors.AsType[*DeathError](err); died {
				continue // what runs there may be the cause; opened by itself, it did not end the process
			}
			return nil, err
		}
		w.mu.Lock()
		same := w.process == p && w.gone == nil
		if same {
			w.sessions[s.id] = s
		}
		w.mu.Unlock()
		if same {
			return s, nil
		}
	}
}

// openIn opens the session in a process.
func (s *Session) openIn(ctx context.Context, p *process) error {
	m, err := p.open(ctx, s.id, s.source)
	if err == nil && m.Opened == nil {
		err = errors.New("the engine's process did not say what it opened")
	}
	return err
}

func (w *Worker) closeSession(s *Session) error {
	defer s.source.close()
	w.mu.Lock()
	delete(w.sessions, s.id)
	p := w.process
	w.mu.Unlock()
	if p == nil {
		return nil // it is not opened again
	}
	_, err := p.ask(context.Background(), &message{Kind: closeMessage, ID: s.id})
	if _, died := errors.AsType[*DeathError](err); died {
		return nil
	}
	return err
}

// supervise starts the next process when one dies, until the worker is gone.
func (w *Worker) supervise(p *process) {
	for {
		<-p.ended
		w.mu.Lock()
		gone := w.gone != nil
		if !gone {
			w.setLocked(nil)
		}
		w.mu.Unlock()
		if gone {
			return
		}
		w.pool.died(Death{w.name, p.cause.Signal})
		began := time.Now()
		w.pool.log.Error("engine process died", "event", "worker_died", "worker", w.name, "cause", p.cause.Text,
			"signal", p.cause.Signal)
		next := w.restart()
		if next == nil {
			return
		}
		p = next
		w.pool.log.Info("engine process started again", "event", "worker_restarted", "worker", w.name, "took",
			time.Since(began).Round(time.Microsecond))
	}
}

// The pauses between attempts to start a worker again.
const (
	firstPause = 10 * time.Millisecond
	maxPause   = 10 * time.Second
)

// restart starts a process with all sessions and publishes it, however often that fails. It returns nil when the worker
// is gone.
func (w *Worker) restart() *process {
	alone := false // open one session after the other, so that one that ends the process is known
	for pause := firstPause; ; pause = min(2*pause, maxPause) {
		p, err := w.pool.process(context.Background())
		if err == nil {
			all := w.list()
			if err = reopen(p, all, alone); err == nil && w.publish(p, all) {
				return p
			}
			p.kill("it was started in vain")
			alone = true
		}
		w.mu.Lock()
		gone := w.gone != nil
		w.mu.Unlock()
		if gone {
			return nil
		}
		w.pool.log.Error("engine process not started again", "event", "worker_restart_failed", "worker", w.name,
			"cause", err, "retry_in", pause)
		time.Sleep(pause)
	}
}

// list returns the sessions that are open.
func (w *Worker) list() (all []*Session) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, s := range w.sessions {
		all = append(all, s)
	}
	return all
}

// reopen opens sessions in a new process, in parallel unless each is to be alone. The error says that the process died.
// A session that cannot be opened, and one that ends the process alone, fails its runs from then on.
func reopen(p *process, all []*Session, alone bool) error {
	if alone {
		for _, s := range all {
			if s.broken.Load() != nil {
				continue
			}
			if err := s.reopen(p, true); err != nil {
				return err
			}
		}
		return nil
	}
	errs := make([]error, len(all))
	var opening sync.WaitGroup
	for i, s := range all {
		opening.Go(func() { errs[i] = s.reopen(p, false) })
	}
	opening.Wait()
	return errors.Join(errs...)
}

// reopen opens the session in a new process. The error says that this died.
func (s *Session) reopen(p *process, alone bool) error {
	err := s.openIn(context.Background(), p)
	if err == nil {
		s.broken.Store(nil)
		return nil
	}
	_, died := errors.AsType[*DeathError](err)
	if died && !alone {
		return err
	}
	broken := fmt.Errorf("the model cannot be opened again: %w", asCrash(err))
	s.broken.Store(&broken)
	if died {
		return err
	}
	return nil
}

// publish makes a process the present one, unless it is dead or the worker gone. Sessions that were closed while they
// were opened in it are closed there.
func (w *Worker) publish(p *process, opened []*Session) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.gone != nil || isDead(p.ended) {
		return false
	}
	w.setLocked(p)
	for _, s := range opened {
		if w.sessions[s.id] == nil {
			go func() { _, _ = p.ask(context.Background(), &message{Kind: closeMessage, ID: s.id}) }()
		}
	}
	return true
}

// lose ends the worker: its device is lost to the present process, so that nothing can be run there any more.
func (w *Worker) lose(cause error) { w.end(cause, "its device was lost") }

func (w *Worker) end(cause error, why string) {
	w.mu.Lock()
	p := w.process
	if w.gone == nil {
		w.gone = cause
		w.setLocked(nil)
	}
	w.mu.Unlock()
	w.pool.forget(w)
	if p != nil {
		p.kill(why)
	}
	w.quarantine.close()
}
