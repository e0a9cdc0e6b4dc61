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
	owned      bool // it goes with its last session
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

// add opens a model, which opened elsewhere as first and took memory there, in the worker's process.
func (w *Worker) add(ctx context.Context, of source, first *opened, took taken) (*Session, error) {
	w.mu.Lock()
	w.last++
	s := newSession(w.last, of, first)
	s.worker, s.memory.worker, s.held, s.before = w, w, took.held, w.history.deaths
	w.mu.Unlock()
	for {
		p, err := w.present(ctx)
		if err != nil {
			return nil, err
		}
		if err := w.admit(p, took); err != nil {
			return nil, err
		}
		if err := s.openIn(ctx, p); err != nil {
			if death, died := errors.AsType[*DeathError](err); died && death.Exceeded == 0 {
				continue // what runs there may be the cause; opened by itself, it did not end the process
			}
			return nil, err
		}
		w.mu.Lock()
		same := w.process == p && w.gone == nil
		if same {
			s.life.Store(openLife(p))
			w.sessions[s.id] = s
		}
		w.mu.Unlock()
		if same {
			return s, nil
		}
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

// errRetired says that the worker of an owner went with the last session.
var errRetired error = &engine.Error{
	Kind: engine.Terminated, Err: errors.New("the engine's process was not needed any more"),
}

func (w *Worker) closeSession(s *Session) error {
	defer s.source.close()
	w.mu.Lock()
	delete(w.sessions, s.id)
	p, last := w.process, len(w.sessions) == 0
	w.mu.Unlock()
	if w.owned && last {
		w.end(errRetired, "its last session was closed")
		return nil
	}
	if p == nil || !isDead(s.life.Load().opened) {
		return nil // it is not opened again, or is closed as soon as it is
	}
	return p.closeSession(s.id)
}

// supervise starts a process, and another one when it dies, until the worker is gone.
func (w *Worker) supervise() {
	for again := false; ; again = true {
		began := time.Now()
		p := w.start()
		if p == nil {
			return
		}
		if again {
			w.pool.log.Info("engine process started again", "event", "worker_restarted", "worker", w.name, "took",
				time.Since(began).Round(time.Microsecond))
		}
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
		w.pool.log.Error("engine process died", "event", "worker_died", "worker", w.name, "cause", p.cause.Text,
			"signal", p.cause.Signal)
	}
}

// The pauses between attempts to start a worker again.
const (
	firstPause = 10 * time.Millisecond
	maxPause   = 10 * time.Second
)

// start starts a process, however often that fails, and makes it the present one. It returns nil when the worker is
// gone.
func (w *Worker) start() *process {
	for pause := firstPause; ; pause = min(2*pause, maxPause) {
		p, err := w.pool.process(context.Background())
		if err == nil {
			if w.publish(p) {
				return p
			}
			p.kill("it was started in vain")
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

// publish makes a process the present one and has all sessions opened there, unless it is dead or the worker gone. A
// model that takes long to be opened holds up nobody but those who wait for it.
func (w *Worker) publish(p *process) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.gone != nil || isDead(p.ended) {
		return false
	}
	for _, s := range w.sessions {
		l := &life{process: p, opened: make(chan struct{})}
		s.life.Store(l)
		go w.reopen(s, l)
	}
	w.setLocked(p)
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
