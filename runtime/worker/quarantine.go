//go:build linux

package worker

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/weftserve/weft/runtime/engine"
	"github.com/weftserve/weft/runtime/tensor"
)

// quarantine is a process of a worker's own in which one run at a time is made, and no other model is open: if the
// process dies, that run was the cause. The process is started when it is needed and kept for a while, since the other
// requests of the batch follow. A run that takes long takes the process with it, so that they do not wait for its end.
type quarantine struct {
	pool   *Pool
	closed context.Context //nolint:containedctx // the quarantine's own life: over when close begins
	end    context.CancelFunc

	turn    chan struct{} // held by the run
	process *process      // guarded by turn; nil: none is kept
	of      *Session      // guarded by turn; that is open there
	idle    *time.Timer   // ends the process
	apart   chan struct{} // has an element for each run that goes on without the turn
}

// quarantineIdle is how long a quarantine process is kept after its latest run.
const quarantineIdle = 5 * time.Second

// quarantineApart is how many runs of a worker may go on in processes of their own after their turn. Each may take as
// much memory as the worker.
const quarantineApart = 3

func newQuarantine(p *Pool) *quarantine {
	q := &quarantine{pool: p, turn: make(chan struct{}, 1), apart: make(chan struct{}, quarantineApart)}
	q.closed, q.end = context.WithCancel(context.Background())
	q.idle = time.AfterFunc(quarantineIdle, func() {
		q.turn <- struct{}{}
		defer func() { <-q.turn }()
		q.clear()
	})
	q.idle.Stop()
	return q
}

// quarantineOver is why a process of a quarantine is ended that has done nothing.
const quarantineOver = "its quarantine is over"

// clear ends the process. The caller has the turn.
func (q *quarantine) clear() {
	if q.process != nil {
		q.process.kill(quarantineOver)
		<-q.process.ended
	}
	q.process, q.of = nil, nil
}

// take waits for the turn and returns a process in which only this session is open.
func (q *quarantine) take(ctx context.Context, s *Session) (*process, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	unwatch := context.AfterFunc(q.closed, cancel)
	defer unwatch()
	select {
	case q.turn <- struct{}{}:
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	q.idle.Stop()
	if p := q.process; p != nil && q.of == s && !isDead(p.ended) {
		return p, nil
	}
	q.clear()
	p, err := q.start(ctx, s)
	if err != nil {
		<-q.turn
		return nil, err
	}
	q.process, q.of = p, s
	return p, nil
}

// start returns a process in which only this session is open. Once the quarantine is closed there is none.
func (q *quarantine) start(ctx context.Context, s *Session) (*process, error) {
	if err := cmp.Or(q.closed.Err(), context.Cause(ctx)); err != nil {
		return nil, err
	}
	p, err := q.pool.process(ctx)
	if err != nil {
		return nil, err
	}
	if err := s.openIn(ctx, p); err != nil {
		p.kill(quarantineOver)
		<-p.ended
		return nil, err
	}
	s.worker.confine(p, s)
	return p, nil
}

// share gives the turn of a run away, with a process for the next one, as soon as the run has had it for so long and
// there is a place apart for it. It reports whether that was before the run had ended.
func (q *quarantine) share(turn time.Duration, ended <-chan struct{}) (apart bool) {
	var over <-chan time.Time
	if turn > 0 {
		over = time.After(turn)
	}
	select {
	case <-over:
	case <-ended:
		return false
	}
	select {
	case q.apart <- struct{}{}:
		q.process, q.of = nil, nil
		<-q.turn
		return true
	case <-ended:
		return false
	}
}

// give ends the use of a process, after its turn or apart.
func (q *quarantine) give(p *process, apart bool) {
	if apart {
		p.kill(quarantineOver)
		<-p.ended
		<-q.apart
		return
	}
	q.idle.Reset(quarantineIdle)
	<-q.turn
}

// close ends the processes, and the runs in them. No other one is started: not by a run that waits for its turn, and
// not for another try of the run that was ended. It may be called again.
func (q *quarantine) close() {
	q.end()
	q.turn <- struct{}{}
	defer func() { <-q.turn }()
	q.idle.Stop()
	q.clear()
	for range quarantineApart { // with the turn held: else two that close would wait for each other
		q.apart <- struct{}{}
	}
	for range quarantineApart {
		<-q.apart
	}
}

// Quarantined is a session whose runs are made in its worker's quarantine.
type Quarantined struct{ *Session }

// quarantineTries is how often a run is made whose process was ended from outside: such a death says nothing about it.
const quarantineTries = 3

// Run executes the model where nothing else runs. An error of the kind engine.Crashed is then the batch's fault. The
// wait for its turn does not count for its patience, and is b.Waited.
func (s Quarantined) Run(ctx context.Context, b *tensor.Batch) (err error) {
	asked := time.Now()
	for range quarantineTries {
		err = s.try(ctx, asked, b)
		if death, died := errors.AsType[*DeathError](err); !died || !death.Outside {
			return err
		}
	}
	return &engine.Error{Kind: engine.Terminated, Err: err}
}

// unmade is the error of a run that was not made. It says nothing about the run.
func (s Quarantined) unmade(err error) error {
	s.worker.mu.Lock()
	defer s.worker.mu.Unlock()
	if gone := s.worker.gone; gone != nil {
		return gone
	}
	return &engine.Error{Kind: engine.Terminated, Err: fmt.Errorf("the model cannot be run in quarantine: %w", err)}
}

func (s Quarantined) try(ctx context.Context, asked time.Time, b *tensor.Batch) error {
	q := s.worker.quarantine
	p, err := q.take(ctx, s.Session)
	if err != nil {
		return s.unmade(err)
	}
	b.Waited = time.Since(asked)
	ended, apart := make(chan struct{}), make(chan bool)
	go func() { apart <- q.share(b.Turn, ended) }()
	defer func() {
		close(ended)
		q.give(p, <-apart)
	}()
	unwatch := context.AfterFunc(q.closed, func() { p.kill(quarantineOver) })
	defer unwatch()
	return s.runIn(ctx, p, b)
}

// runIn executes the model in a process. The patience is that of this run alone: only its end tells of the run, and not
// what interrupts the others of the session.
func (s Quarantined) runIn(ctx context.Context, p *process, b *tensor.Batch) error {
	patience := b.Patience
	if patience > 0 {
		defer func() { b.Patience = patience }()
		b.Patience = 0
		var cancel func()
		ctx, cancel = p.clock.WithTimeoutCause(ctx, patience, errOverrun)
		defer cancel()
	}
	err := p.run(ctx, s.Session, b)
	if engine.KindOf(err) == engine.Terminated && errors.Is(context.Cause(ctx), errOverrun) {
		return engine.Overrun(patience, err)
	}
	return err
}

// errOverrun ends a run in quarantine that took longer than its patience.
var errOverrun = errors.New("it hangs")

// Close does nothing: the session is closed by itself.
func (Quarantined) Close() error { return nil }
