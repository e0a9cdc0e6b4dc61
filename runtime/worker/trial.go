//go:build linux

package worker

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/weftserve/weft/runtime/engine"
	"github.com/weftserve/weft/runtime/tensor"
)

// trial is a session in a process where a model is opened for the first time, and nothing else is.
type trial struct {
	*Session
	process *process
}

var _ engine.Session = trial{}

// Run executes the model. When the process dies the error is of the kind engine.Crashed, and so is that of later runs;
// if it was ended from outside, they are of the kind engine.Terminated.
func (t trial) Run(ctx context.Context, b *tensor.Batch) error {
	err := t.process.run(ctx, t.Session, b)
	if death, died := errors.AsType[*DeathError](err); died && death.Outside {
		return &engine.Error{Kind: engine.Terminated, Err: err}
	}
	return err
}

// Stats returns what the process reported with its latest answer.
func (t trial) Stats() engine.Stats { return *t.stats.Load() }

// Close does nothing: the process is ended soon.
func (trial) Close() error { return nil }

// openPatience is how long a model may take to be opened for the first time. Some providers compile it, which takes
// minutes.
const openPatience = 15 * time.Minute

func errOpening(patience time.Duration) error {
	return fmt.Errorf("the engine did not open the model within %v: perhaps it computes nodes that depend on no "+
		"input, which can be exported as their results", patience)
}

// try opens a model where nothing else is open, and has it tried there. It returns the memory that opening it took,
// which is free then.
func (p *Pool) try(ctx context.Context, from source, try engine.Try) (_ *opened, took taken, err error) {
	process, err := p.process(ctx)
	if err != nil {
		return nil, taken{}, err
	}
	defer func() {
		process.kill("the model was opened")
		<-process.ended
	}()
	const only = 1
	first, err := process.openFirst(ctx, only, from, p.patience)
	took = taken{peak: process.peak() - process.empty, held: process.usage.read() - process.empty}
	if err != nil || try == nil {
		return first, took, err
	}
	s := newSession(only, from, first)
	err = try(ctx, engine.Opened{Session: trial{s, process}, Memory: s.memory})
	if death := process.death(); err == nil && death != nil && death.Outside {
		err = &engine.Error{Kind: engine.Terminated, Err: fmt.Errorf("the process in which the model was tried was not "+
			"ended by a run; the load is tried again: %w", death)}
	}
	return first, took, err
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
