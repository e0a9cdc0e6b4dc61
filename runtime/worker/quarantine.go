//go:build linux

package worker

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/weftserve/weft/runtime/engine"
	"github.com/weftserve/weft/runtime/tensor"
)

// quarantine is a process of a worker's own in which one run at a time is made, and no other model is open: if the
// process dies, that run was the cause. The process is started when it is needed and kept for a while, since the other
// requests of the batch follow.
type quarantine struct {
	pool *Pool

	turn    chan struct{}           // held by the run
	process atomic.Pointer[process] // written with the turn held; nil: none is kept
	of      *Session                // guarded by turn; that is open there
	idle    *time.Timer             // ends the process
}

// quarantineIdle is how long a quarantine process is kept after its latest run.
const quarantineIdle = 5 * time.Second

func newQuarantine(p *Pool) *quarantine {
	q := &quarantine{pool: p, turn: make(chan struct{}, 1)}
	q.idle = time.AfterFunc(quarantineIdle, func() {
		q.turn <- struct{}{}
		defer func() { <-q.turn }()
		q.clear()
	})
	q.idle.Stop()
	return q
}

// clear ends the process. The caller has the turn.
func (q *quarantine) clear() {
	if p := q.process.Swap(nil); p != nil {
		p.kill("its quarantine is over")
		<-p.ended
	}
	q.of = nil
}

// take waits for the turn and returns a process in which only this session is open.
func (q *quarantine) take(ctx context.Context, s *Session) (*process, error) {
	select {
	case q.turn <- struct{}{}:
	case <-ctx.Done():
		return nil, &engine.Error{Kind: engine.Terminated, Err: context.Cause(ctx)}
	}
	q.idle.Stop()
	if p := q.process.Load(); p != nil && q.of == s && !isDead(p.ended) {
		return p, nil
	}
	q.clear()
	p, err := q.pool.process(ctx)
	if err == nil {
		if err = s.openIn(ctx, p); err != nil {
			p.kill("its quarantine is over")
		}
	}
	if err != nil {
		<-q.turn
		return nil, err
	}
	s.worker.confine(p, s)
	q.of = s
	q.process.Store(p)
	return p, nil
}

func (q *quarantine) give() {
	q.idle.Reset(quarantineIdle)
	<-q.turn
}

// close ends the process, and the run in it.
func (q *quarantine) close() {
	if p := q.process.Load(); p != nil {
		p.kill("its quarantine is over")
	}
	q.turn <- struct{}{}
	defer func() { <-q.turn }()
	q.idle.Stop()
	q.clear()
}

// Quarantined is a session whose runs are made in its worker's quarantine.
type Quarantined struct{ *Session }

// quarantineTries is how often a run is made whose process was ended from outside: such a death says nothing about it.
const quarantineTries = 3

// Run executes the model where nothing else runs. An error of the kind engine.Crashed is then the batch's fault.
func (s Quarantined) Run(ctx context.Context, b *tensor.Batch) (err error) {
	for range quarantineTries {
		err = s.try(ctx, b)
		if death, died := errors.AsType[*DeathError](err); !died || !death.Outside {
			return err
		}
	}
	return &engine.Error{Kind: engine.Terminated, Err: err}
}

func (s Quarantined) try(ctx context.Context, b *tensor.Batch) error {
	q := s.worker.quarantine
	p, err := q.take(ctx, s.Session)
	if err != nil {
		return err
	}
	defer q.give()
	return p.run(ctx, s.Session, b)
}

// Close does nothing: the session is closed by itself.
func (Quarantined) Close() error { return nil }
