package weftest

import (
	"context"
	"sync"

	"github.com/weftserve/weft/runtime/engine"
	"github.com/weftserve/weft/runtime/tensor"
)

// Engine is a session of a model that is written in Go. It panics when it is used against the rules of engine.Session,
// so that no test passes over it.
type Engine struct {
	// Declared is its signature.
	Declared tensor.Signature
	// Answer runs it.
	Answer func(b *tensor.Batch) error
	// Known holds the statistics that it reports of itself.
	Known engine.Stats
	// Opened is the result of Open, but for the session.
	Opened engine.Opened

	// A server runs an engine from several goroutines.
	mu     sync.Mutex
	runs   []int // guarded by mu, as is the rest: the size of each run's first input
	active int
	opened int
	closed int
}

var _ engine.Session = (*Engine)(nil)

// Open opens it once more, so that it may be closed once more. A test may also use it without Open, and close it once.
func (e *Engine) Open() engine.Opened {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.opened++
	o := e.Opened
	o.Session = e
	return o
}

// shutLocked reports whether it was closed as often as it was opened.
func (e *Engine) shutLocked() bool { return e.closed >= max(e.opened, 1) }

// Signature returns Declared.
func (e *Engine) Signature() *tensor.Signature { return &e.Declared }

// Run answers.
func (e *Engine) Run(_ context.Context, b *tensor.Batch) error {
	// A model without rows has scalars, and one run of it is one row.
	size := 1
	if s := b.Inputs[0].Shape; len(s) > 0 {
		size = int(s[0])
	}
	e.enter(size)
	defer e.leave()
	return e.Answer(b)
}

// enter notes that a run begins. It panics on a closed session, which no test survives.
func (e *Engine) enter(size int) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.shutLocked() {
		panic("a run on a closed session")
	}
	e.runs = append(e.runs, size)
	e.active++
}

// leave notes that a run has ended.
func (e *Engine) leave() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.active--
}

// Stats returns Known. It panics on a closed session.
func (e *Engine) Stats() engine.Stats {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.shutLocked() {
		panic("a closed session was asked what it knows")
	}
	return e.Known
}

// Close notes that it is closed. It panics when it is called more often than Open, or the last time during a run.
func (e *Engine) Close() error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.active > 0 && e.closed+1 >= max(e.opened, 1) || e.shutLocked() {
		panic("closed under a run, or too often")
	}
	e.closed++
	return nil
}

// Closed returns how often it was closed.
func (e *Engine) Closed() int {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.closed
}

// Forget clears the list of runs and returns it: the size of the first input of each.
func (e *Engine) Forget() []int {
	e.mu.Lock()
	defer e.mu.Unlock()
	runs := e.runs
	e.runs = nil
	return runs
}
