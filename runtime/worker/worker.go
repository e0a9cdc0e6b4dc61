//go:build linux

package worker

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weftserve/weft/internal/owntime"
	"github.com/weftserve/weft/runtime/engine"
)

// Worker supervises one process at a time and the sessions in it.
type Worker struct {
	name       string
	device     string
	owned      bool // it goes with its last session
	pool       *Pool
	quarantine *quarantine
	rest       atomic.Int64 // bytes that its process took when all sessions were open

	mu       sync.Mutex
	process  *process            // guarded by mu, as is the rest; nil while the next one is being started
	changed  chan struct{}       // closed, and another one, when process or gone changes
	gone     error               // why there is no next process
	sessions map[uint32]*Session // the open ones
	last     uint32              // number of the latest session
	history  history             // of its processes
}

// Most restarts are done within quickRestart, for which a run waits with the scheduler's lane; restartPatience is for
// runs that hold nothing up.
const (
	quickRestart    = 100 * time.Millisecond
	restartPatience = 10 * time.Second
)

// runPatience returns how long a run may wait now for the next process. Where that is not started quickly, later runs
// leave the lane to other models at once.
func (w *Worker) runPatience() time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.history.down.IsZero() {
		return quickRestart
	}
	return time.Until(w.history.down.Add(quickRestart))
}

// present returns the process. If there is none, and none for so long, that is no error: changed is closed once there
// is one, or will never be one.
func (w *Worker) present(ctx context.Context, patience time.Duration) (p *process, changed <-chan struct{}, err error) {
	var late <-chan struct{}
	for {
		w.mu.Lock()
		p, gone, changed := w.process, w.gone, w.changed
		w.mu.Unlock()
		switch {
		case gone != nil:
			return nil, nil, gone
		case p != nil && !isDead(p.ended):
			return p, nil, nil
		}
		if late == nil {
			late = w.pool.cfg.Clock.After(patience)
		}
		select {
		case <-changed:
		case <-late:
			return nil, changed, nil
		case <-ctx.Done():
			return nil, nil, &engine.Error{Kind: engine.Terminated, Err: context.Cause(ctx)}
		}
	}
}

// await returns the process, and an error if there is none for long.
func (w *Worker) await(ctx context.Context) (*process, error) {
	p, _, err := w.present(ctx, restartPatience)
	if p == nil && err == nil {
		err = &engine.Error{
			Kind: engine.Terminated, Err: fmt.Errorf("the engine's process %s is still being started again", w.name),
		}
	}
	return p, err
}

// upSince returns when the process was started in which runs can begin now; zero if there is none.
func (w *Worker) upSince() time.Time {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.process == nil || isDead(w.process.ended) {
		return time.Time{}
	}
	return w.process.started
}

// clock returns the one by which runs that begin now are judged, and the wait for a process if there is none.
func (w *Worker) clock() *owntime.Clock {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.process == nil {
		return w.pool.cfg.Clock
	}
	return w.process.clock
}

func (w *Worker) setLocked(p *process) {
	w.noteLocked(p)
	w.process = p
	close(w.changed)
	w.changed = make(chan struct{})
}

// openTries is how often a model is opened in a worker whose processes end meanwhile, because of other models.
const openTries = 5

// add opens a model, which opened elsewhere as first and took memory there, in the worker's process.
func (w *Worker) add(ctx context.Context, of source, first *opened, took taken) (*Session, error) {
	w.mu.Lock()
	w.last++
	s := newSession(w.last, of, first)
	s.worker, s.took, s.before = w, took, w.history.deaths
	w.mu.Unlock()
	var died *DeathError // what runs there may be the cause; opened by itself, the model did not end the process
	for range openTries {
		p, err := w.await(ctx)
		if err != nil {
			return nil, err
		}
		if err := s.openBeside(ctx, p); err != nil {
			var is bool
			if died, is = errors.AsType[*DeathError](err); is && died.Exceeded == 0 {
				continue
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
		<-p.ended // or the worker is gone, which ends it, too
		died = p.cause
	}
	return nil, &engine.Error{Kind: engine.Terminated, Err: fmt.Errorf("the engine's process %s ended %d times while the "+
		"model was being opened there, because of what else runs in it; the load is tried again. Find the model whose "+
		"requests end it in the log (request_crashed), or run each model in a process of its own (--isolation model): %w",
		w.name, openTries, died)}
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
	p, open := w.process, s.life.Load().isOpen()
	w.mu.Unlock()
	if w.retire("its last session was closed") || p == nil || !open {
		return nil // in the latter cases it could not be opened again, or is closed as soon as it is
	}
	return p.closeSession(s.id)
}

// supervise starts a process, and another one when it dies, until the worker is gone.
func (w *Worker) supervise() {
	for died := (time.Time{}); ; died = time.Now() {
		p := w.start()
		if p == nil {
			return
		}
		p.output.of(w.name, p.command.Process.Pid)
		if !died.IsZero() {
			w.pool.alive.Go(func() { w.tellRestart(p, died) })
		}
		<-p.ended
		w.pool.mu.Lock()
		closed := w.pool.closed // then the worker is about to be gone
		w.pool.mu.Unlock()
		w.mu.Lock()
		gone := closed || w.gone != nil
		if !gone {
			w.setLocked(nil)
		}
		w.mu.Unlock()
		if gone {
			return
		}
		w.pool.died(Death{w.name, p.cause.Signal})
		w.pool.log.Error("engine process died", "event", "worker_died", "worker", w.name, "cause", p.cause.Text,
			"signal", p.cause.Signal, "pid", p.command.Process.Pid, "running", p.running)
	}
}

// tellRestart logs that a process which took the place of one that died has its models open, unless it ends before.
func (w *Worker) tellRestart(p *process, died time.Time) {
	failed, all := 0, w.list()
	for _, s := range all {
		l := s.life.Load()
		select {
		case <-l.opened:
		case <-p.ended:
			return
		}
		if !l.isOpen() {
			failed++
		}
	}
	if !isDead(p.ended) {
		w.pool.log.Info("engine process started again", "event", "worker_restarted", "worker", w.name, "pid",
			p.command.Process.Pid, "models", len(all)-failed, "failed", failed, "took",
			time.Since(died).Round(time.Millisecond))
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
		gone, changed := w.gone != nil, w.changed
		w.mu.Unlock()
		if gone {
			return nil
		}
		w.pool.log.Error("engine process not started again", "event", "worker_restart_failed", "worker", w.name,
			"cause", err, "retry_in", pause)
		select {
		case <-time.After(pause):
		case <-changed: // it is gone
		}
	}
}

// publish makes a process the present one and has all sessions opened there, unless it is dead or the worker gone. A
// model that takes long to be opened holds up only the callers that wait for it.
func (w *Worker) publish(p *process) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.gone != nil || isDead(p.ended) {
		return false
	}
	lives := map[*Session]*life{}
	for _, s := range w.sessions {
		lives[s] = newLife(p, nil)
		s.life.Store(lives[s])
	}
	w.reopen(p, lives) // first: what is new in the process comes after what was there
	w.setLocked(p)
	return true
}

// lose ends the worker: its device is lost to the present process, so that nothing can be run there any more.
func (w *Worker) lose(cause error) { w.end(cause, "its device was lost") }

// retire ends the worker of an owner if no session is open there, and reports whether it did.
func (w *Worker) retire(why string) bool {
	w.mu.Lock()
	if !w.owned || len(w.sessions) > 0 {
		w.mu.Unlock()
		return false
	}
	rest := w.endLocked(errRetired, why)
	w.mu.Unlock()
	rest()
	return true
}

func (w *Worker) end(cause error, why string) {
	w.mu.Lock()
	rest := w.endLocked(cause, why)
	w.mu.Unlock()
	rest()
}

// endLocked has no session opened in the worker any more. It calls rest when it has given the lock up.
func (w *Worker) endLocked(cause error, why string) (rest func()) {
	p := w.process
	if w.gone == nil {
		w.gone = cause
		w.setLocked(nil)
	}
	return func() {
		w.pool.forget(w)
		if p != nil {
			p.kill(why)
		}
		w.quarantine.close()
	}
}

// passed are the variables, or their beginnings, that a worker inherits: the ones that engines, GPU libraries and the
// dynamic linker read. All others stay here, because some are secrets.
var passed = []string{
	"CUDA_", "CUBLAS_", "CUDNN_", "NVIDIA_", "NCCL_", "LD_LIBRARY_PATH=", "DYLD_LIBRARY_PATH=", "OMP_", "ORT_", "TF32_",
	"GODEBUG=", "GORACE=", "GOCOVERDIR=", "LANG=", "LC_", "LOCPATH=", "TZ=",
}

// defaults are the variables of a worker that the server does not have. The last of a name holds.
var defaults = []string{
	"GOTRACEBACK=single", // the reason, and the place, are enough
}

// environment returns the variables of a worker: the defaults and what it inherits.
func environment(all []string) []string {
	kept := slices.Clone(defaults)
	for _, v := range all {
		for _, p := range passed {
			if strings.HasPrefix(v, p) {
				kept = append(kept, v)
				break
			}
		}
	}
	return kept
}
