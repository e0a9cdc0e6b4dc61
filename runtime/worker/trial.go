//go:build linux

package worker

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weftserve/weft/runtime/engine"
	"github.com/weftserve/weft/runtime/tensor"
)

// trial is a session in a process where a model is opened for the first time, and nothing else is.
type trial struct {
	*Session
	process *process
	crashed atomic.Bool // a run of it did
}

var _ engine.Session = (*trial)(nil)

// Run executes the model. When the process dies the error is of the kind engine.Crashed, and so is that of later runs;
// if it was ended from outside, they are of the kind engine.Terminated.
func (t *trial) Run(ctx context.Context, b *tensor.Batch) error {
	err := t.process.run(ctx, t.Session, b)
	if engine.KindOf(err) == engine.Crashed {
		t.crashed.Store(true)
	}
	if death, died := errors.AsType[*DeathError](err); died && death.Outside {
		return &engine.Error{Kind: engine.Terminated, Err: err}
	}
	return err
}

// Stats returns what the process reported with its latest answer.
func (t *trial) Stats() engine.Stats { return *t.stats.Load() }

// Close does nothing: tryIn closes the session, or ends the process.
func (*trial) Close() error { return nil }

// openPatience is how long a model may take to be opened for the first time. Some providers compile it, which takes
// minutes.
const openPatience = 15 * time.Minute

func errOpening(patience time.Duration) error {
	return fmt.Errorf("the engine did not open the model within %v: perhaps it computes nodes that depend on no "+
		"input, which can be exported as their results", patience)
}

// A process in which a model was tried on the CPU is used for the next one, because starting a process takes longer
// than trying a small model. It is ended if it is not needed for a while, or holds more memory than an empty one.
const (
	triedIdle = time.Second
	triedLeft = 4 << 20 // bytes, by which the next model's memory may be overestimated
)

// try opens a model where no other is open, and has it tried there. It returns the memory that opening it took, at
// most, which is free then. If it fails in a process in which others were tried, one of those may be to blame: it
// is tried once more in a new process. With alone, only a new one will do.
func (p *Pool) try(ctx context.Context, from source, alone bool, try engine.Try) (*opened, taken, error) {
	var one *process
	if !alone {
		one = p.tried.take()
	}
	if one != nil {
		first, took, failed, err := p.tryIn(ctx, one, from, alone, try)
		if err == nil && !failed || ctx.Err() != nil {
			return first, took, err
		}
	}
	var err error
	if one, err = p.process(ctx); err != nil {
		return nil, taken{}, err
	}
	first, took, _, err := p.tryIn(ctx, one, from, alone, try)
	return first, took, err
}

// tryIn is try in a process, which it owns. failed: a run ended the process, or took too long, which try may take for a
// result.
func (p *Pool) tryIn(ctx context.Context, one *process, from source, alone bool, try engine.Try,
) (first *opened, took taken, failed bool, err error) {
	const only = 1
	fine := false // try may panic
	defer func() {
		if fine && !alone && first.Device == processor && one.closeSession(only) == nil && one.death() == nil &&
			one.usage.read() <= one.empty+triedLeft {
			p.tried.keep(one)
			return
		}
		one.kill("the model was opened")
		<-one.ended
	}()
	one.most.Store(0) // of the model before
	one.stir()
	first, err = one.openFirst(ctx, only, from, p.patience)
	took = taken{peak: one.peak() - one.empty, held: one.usage.read() - one.empty}
	if err != nil || try == nil {
		fine = err == nil
		return first, took, false, err
	}
	t := &trial{Session: newSession(only, from, first), process: one}
	err = try(ctx, engine.Opened{Session: t, Memory: t.memory})
	if death := one.death(); err == nil && death != nil && death.Outside {
		err = &engine.Error{Kind: engine.Terminated, Err: fmt.Errorf("the process in which the model was tried was not "+
			"ended by a run; the load is tried again: %w", death)}
	}
	failed = t.crashed.Load()
	fine = err == nil && !failed
	return first, took, failed, err
}

// triedProcesses are the processes that wait for the next model to try. The zero value has none.
type triedProcesses struct {
	idle time.Duration // set before the first one; 0: triedIdle

	mu  sync.Mutex
	all []*process // guarded by mu
}

// take returns one that lives, or nil.
func (t *triedProcesses) take() *process {
	t.mu.Lock()
	defer t.mu.Unlock()
	for n := len(t.all); n > 0; n = len(t.all) {
		one := t.all[n-1]
		t.all = t.all[:n-1]
		if !isDead(one.ended) {
			return one
		}
	}
	return nil
}

// keep has a process wait, and ends it if nobody takes it for a while.
func (t *triedProcesses) keep(one *process) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.all = append(t.all, one)
	kept := time.Now()
	one.kept = kept
	time.AfterFunc(cmp.Or(t.idle, triedIdle), func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		if i := slices.Index(t.all, one); i >= 0 && one.kept.Equal(kept) {
			t.all = slices.Delete(t.all, i, i+1)
			one.kill("no more models are opened")
		}
	})
}

// openFirst opens a session within some time. If the process dies of it, the error is of the kind engine.Crashed.
func (p *process) openFirst(ctx context.Context, id uint32, from source, patience time.Duration) (*opened, error) {
	ctx, cancel := p.clock.WithTimeoutCause(ctx, patience, errOpening(patience))
	defer cancel()
	m, err := p.open(ctx, id, from)
	if cause, died := errors.AsType[*DeathError](err); died {
		return nil, fmt.Errorf("while the model was opened, %w", crashed(cause))
	}
	if err != nil {
		return nil, err
	}
	if err := m.Opened.check(from.device); err != nil {
		return nil, fmt.Errorf("the engine's process does not say what it opened: %w", err)
	}
	return m.Opened, nil
}

// run executes a session's model in the process.
func (p *process) run(ctx context.Context, s *Session, b *tensor.Batch) error {
	l, err := p.take(s)
	if err != nil {
		return asCrash(err)
	}
	defer p.give(l)
	return l.execute(ctx, s, b)
}
