//go:build linux

package worker

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"slices"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/weftserve/weft/runtime/engine"
)

// Pool is all workers of a server. It keeps one process more than there are workers, with the engine's library loaded,
// for the one that dies next. Safe for concurrent use.
type Pool struct {
	cfg      Config
	log      *slog.Logger
	patience time.Duration           // of first openings; set before the first one
	stop     context.Context         //nolint:containedctx // the pool's own life: ends when Close begins
	end      context.CancelCauseFunc // of stop

	mu        sync.Mutex
	closed    bool                  // guarded by mu, as is the rest
	workers   map[string]*Worker    // the ones that are not gone
	spare     *spare                // nil: none was asked for yet
	processes map[*process]struct{} // the ones that have started and are not dead
	deaths    map[Death]uint64      // how often workers died, also the ones that are gone
	alive     sync.WaitGroup        // supervisors, and processes
	tried     triedProcesses
	told      sync.Once // whether processes are confined
}

// spare is a process that is being started, or was.
type spare struct {
	ready   chan struct{}
	process *process
	err     error
}

var errPoolClosed error = &engine.Error{Kind: engine.Terminated, Err: errors.New(stopping)}

// NewPool returns a pool without workers.
func NewPool(cfg Config) *Pool {
	p := &Pool{
		cfg: cfg, log: cfg.Log, patience: openPatience, workers: map[string]*Worker{},
		processes: map[*process]struct{}{}, deaths: map[Death]uint64{},
	}
	p.stop, p.end = context.WithCancelCause(context.Background())
	return p
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
	p.alive.Go(func() {
		s.process, s.err = startProcess(p.stop, p.cfg)
		if s.err == nil {
			p.register(s.process)
		}
		close(s.ready)
		if s.err != nil {
			return // the next one who wants a process learns it
		}
		p.tellConfined(s.process)
		<-s.process.ended
		p.mu.Lock()
		defer p.mu.Unlock()
		delete(p.processes, s.process)
		if p.spare == s && !p.closed { // it died before it was needed
			p.spare = p.prepareLocked()
		}
	})
	return s
}

// stopping is why Close ends processes.
const stopping = "the server is stopping"

// register has Close end a process. It may have looked for processes before.
func (p *Pool) register(one *process) {
	p.mu.Lock()
	p.processes[one] = struct{}{}
	closed := p.closed
	p.mu.Unlock()
	if closed {
		one.kill(stopping)
	}
}

// discard ends a process that nobody wants.
func (s *spare) discard() {
	<-s.ready
	if s.process != nil {
		s.process.kill("it is not needed")
		<-s.process.ended
	}
}

// Open opens a model in the worker of a place, which is started if there is none. The model is a value that Serve's
// engine understands. It is opened first in a process where nothing else is open: if that dies of it, the error is of
// the kind engine.Crashed, and nobody else is harmed. try is called there, unless it is nil. The engine gets the file
// too, which may be nil; each process in which the session is opened later gets it again.
func (p *Pool) Open(ctx context.Context, at Place, model any, file *os.File,
	try engine.Try,
) (_ engine.Opened, err error) {
	encoded, err := json.Marshal(model)
	if err != nil {
		return engine.Opened{}, err
	}
	from := source{model: encoded, device: at.Device, version: at.Version}
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
	first, took, err := p.try(ctx, from, at.Alone, try)
	if err != nil {
		return engine.Opened{}, err
	}
	var s *Session
	for {
		w, err := p.worker(at)
		if err != nil {
			return engine.Opened{}, err
		}
		if s, err = w.add(ctx, from, first, took); err == nil {
			break
		}
		if !errors.Is(err, errRetired) { // else it is another one's turn
			w.retire("its first session was not opened")
			return engine.Opened{}, err
		}
	}
	return engine.Opened{
		Session: s, Device: first.Device, Provider: first.Provider, Notes: first.Notes, Memory: s.memory,
		Quarantine: Quarantined{s}, Interrupt: s.Interrupt, Clock: s.worker.clock,
	}, nil
}

// worker returns the worker of a place, whose first process may still be being started.
func (p *Pool) worker(at Place) (*Worker, error) {
	name := at.Device
	if at.Alone {
		name += " " + at.Version
	}
	p.mu.Lock()
	w := p.workers[name]
	if w == nil && !p.closed {
		w = &Worker{
			name: name, device: at.Device, owned: at.Alone, pool: p, quarantine: newQuarantine(p), changed: make(chan struct{}),
			sessions: map[uint32]*Session{},
		}
		p.workers[name] = w
		p.alive.Go(w.supervise)
	}
	p.mu.Unlock()
	if w == nil {
		return nil, errPoolClosed
	}
	return w, nil
}

func (p *Pool) died(d Death) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.deaths[d]++
}

func (p *Pool) forget(w *Worker) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.workers[w.name] == w {
		delete(p.workers, w.name)
	}
}

// Stats returns since when each worker has its process, zero if it has none now, and how often processes died.
func (p *Pool) Stats() (since map[string]time.Time, deaths map[Death]uint64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	since = map[string]time.Time{}
	for name, w := range p.workers {
		since[name] = w.upSince()
	}
	return since, maps.Clone(p.deaths)
}

// Lose ends all workers of a device that is lost. Sessions in them fail with the cause from then on; the next one that
// is opened there is in another process.
func (p *Pool) Lose(device string, cause error) {
	for _, w := range p.list() {
		if w.device == device {
			w.lose(&engine.Error{Kind: engine.DeviceLost, Err: cause})
		}
	}
}

// list returns the workers that are not gone.
func (p *Pool) list() (all []*Worker) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, w := range p.workers {
		all = append(all, w)
	}
	return all
}

// Close ends all processes, those in which a model is being opened included, and then waits for that. Sessions fail
// from then on.
func (p *Pool) Close() {
	p.mu.Lock()
	p.closed = true
	all := slices.Collect(maps.Keys(p.processes))
	p.mu.Unlock()
	p.end(errPoolClosed) // a process that is being started is not waited for
	for _, one := range all {
		one.kill(stopping)
	}
	for _, w := range p.list() {
		w.end(errPoolClosed, stopping)
	}
	p.alive.Wait()
}

// Supported returns why this system cannot have workers, or nil.
func Supported() error {
	file, page, err := share("weft probe", pageBytes)
	if err != nil {
		return fmt.Errorf("it has no sealed shared memory (%w)", err)
	}
	_ = unix.Munmap(page)
	_ = unix.Close(file)
	if _, err := os.Stat(self); err != nil {
		return fmt.Errorf("it has no %s by which this program can be started again (%w)", self, err)
	}
	return nil
}
