//go:build linux

package worker

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync"

	"github.com/weftserve/weft/runtime/engine"
)

// Config holds the settings of a Pool.
type Config struct {
	// Command is the argument that makes this program call Serve. The path of the engine's library follows.
	Command string
	// Library returns that path. The error says how to help.
	Library func() (path string, err error)
	Log     *slog.Logger
}

// Pool is all workers of a server. It keeps one process more than there are workers, with the engine's library loaded,
// for the one that dies next. Safe for concurrent use.
type Pool struct {
	cfg Config
	log *slog.Logger

	mu      sync.Mutex
	closed  bool               // guarded by mu, as is the rest
	workers map[string]*Worker // those that are not gone
	spare   *spare             // nil: none was asked for yet
	alive   sync.WaitGroup     // supervisors
}

// spare is a process that is being started, or was.
type spare struct {
	ready   chan struct{}
	process *process
	err     error
}

var errPoolClosed error = &engine.Error{Kind: engine.Terminated, Err: errors.New("the server is stopping")}

// NewPool returns a pool without workers.
func NewPool(cfg Config) *Pool {
	return &Pool{cfg: cfg, log: cfg.Log, workers: map[string]*Worker{}}
}

// process returns a process in which nothing is open.
func (p *Pool) process(ctx context.Context) (*process, error) {
	for {
		p.mu.Lock()
		s := p.spare
		p.spare = nil
		if s == nil {
			s = p.prepareLocked()
		}
		if !p.closed {
			p.spare = p.prepareLocked()
		}
		p.mu.Unlock()
		select {
		case <-s.ready:
		case <-ctx.Done():
			go s.discard()
			return nil, context.Cause(ctx)
		}
		if s.err != nil {
			return nil, s.err
		}
		if !isDead(s.process.ended) {
			return s.process, nil
		}
	}
}

func (p *Pool) prepareLocked() *spare {
	s := &spare{ready: make(chan struct{})}
	if p.closed {
		s.err = errPoolClosed
		close(s.ready)
		return s
	}
	go func() {
		defer close(s.ready)
		s.process, s.err = startProcess(context.Background(), p.cfg)
	}()
	return s
}

// discard ends a process that nobody wants.
func (s *spare) discard() {
	<-s.ready
	if s.process != nil {
		s.process.kill("it is not needed")
		<-s.process.ended
	}
}

// Open opens a model in the named worker, which is started if there is none of that name. The model is a value that
// Serve's opener understands. It is opened first in a process where nothing else is open: if that dies of it, the error
// is of the kind engine.Crashed, and nobody else is harmed. The opener gets the file too, which may be nil, and so does
// each process in which the session is opened later.
func (p *Pool) Open(ctx context.Context, name string, model any, file *os.File) (_ engine.Opened, err error) {
	encoded, err := json.Marshal(model)
	if err != nil {
		return engine.Opened{}, err
	}
	from := source{model: encoded}
	if file != nil {
		if from.file, err = duplicate(file); err != nil {
			return engine.Opened{}, err
		}
	}
	defer func() {
		if err != nil {
			from.close()
		}
	}()
	trial, err := p.process(ctx)
	if err != nil {
		return engine.Opened{}, err
	}
	const only = 1
	m, err := trial.open(ctx, only, from)
	if err == nil && (m.Opened == nil || m.Opened.Signature == nil) {
		err = errors.New("the engine's process did not say what it opened")
	}
	trial.kill("the model was opened")
	if err != nil {
		if died := asCrash(err); died != err {
			err = fmt.Errorf("opening the model ended the engine's process: %w", died)
		}
		return engine.Opened{}, err
	}
	<-trial.ended // its memory is free
	w, err := p.worker(ctx, name)
	if err != nil {
		return engine.Opened{}, err
	}
	s, err := w.open(ctx, from, m.Opened)
	if err != nil {
		return engine.Opened{}, err
	}
	return engine.Opened{
		Session: s, Device: m.Opened.Device, Provider: m.Opened.Provider, Notes: m.Opened.Notes, Memory: s.memory,
	}, nil
}

// worker returns the worker of a name.
func (p *Pool) worker(ctx context.Context, name string) (*Worker, error) {
	p.mu.Lock()
	w := p.workers[name]
	if w == nil && !p.closed {
		w = &Worker{name: name, pool: p, changed: make(chan struct{}), sessions: map[uint32]*Session{}}
		p.workers[name] = w
		p.alive.Go(func() {
			if first := w.restart(); first != nil {
				w.supervise(first)
			}
		})
	}
	p.mu.Unlock()
	if w == nil {
		return nil, errPoolClosed
	}
	_, err := w.present(ctx)
	return w, err
}

func (p *Pool) forget(w *Worker) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.workers[w.name] == w {
		delete(p.workers, w.name)
	}
}

// Lose ends the named worker, because its device is lost. Sessions in it fail with the cause from then on; the next
// one that is opened under this name is in another process.
func (p *Pool) Lose(name string, cause error) {
	p.mu.Lock()
	w := p.workers[name]
	p.mu.Unlock()
	if w != nil {
		w.lose(&engine.Error{Kind: engine.DeviceLost, Err: cause})
	}
}

// Close ends all processes and waits for that. Sessions fail from then on.
func (p *Pool) Close() {
	p.mu.Lock()
	p.closed = true
	s := p.spare
	p.spare = nil
	all := make([]*Worker, 0, len(p.workers))
	for _, w := range p.workers {
		all = append(all, w)
	}
	p.mu.Unlock()
	for _, w := range all {
		w.end(errPoolClosed, "the server is stopping")
	}
	if s != nil {
		s.discard()
	}
	p.alive.Wait()
}
