//go:build linux

package worker

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"github.com/weftserve/weft/runtime/engine"
)

// taken is the memory in bytes that opening a model took by itself: the most, and what it held in the end.
type taken struct{ peak, held int64 }

// openings are those of a process. They are made next to each other as far as their memory fits the bound together, for
// each was admitted by itself, when the model was opened first; the others wait. One that waits holds up those behind
// it in the line only if it would not fit any more once they are open.
type openings struct {
	mu      sync.Mutex
	line    []*Session    // guarded by mu, as is the rest; the ones that wait
	going   taken         // the sum of the ones that go on
	settled int64         // bytes that the process takes without them
	changed chan struct{} // closed, and another one, when one has left the line or has ended
}

func newOpenings() openings { return openings{changed: make(chan struct{})} }

// enter puts sessions at the end of the line. admit must follow for each.
func (o *openings) enter(all ...*Session) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.line = append(o.line, all...)
}

func (o *openings) tellLocked() {
	close(o.changed)
	o.changed = make(chan struct{})
}

// admit waits in the line until a model can be opened in a process of the worker without exceeding the bound, and
// returns what to call once it was. The error is that the model does not fit there, although it may elsewhere; why the
// process ended; or ctx's cause.
func (w *Worker) admit(ctx context.Context, p *process, s *Session) (opened func(), err error) {
	for {
		begun, changed, err := w.begin(ctx, p, s)
		switch {
		case err != nil:
			return nil, err
		case begun:
			return func() { w.opened(p, s) }, nil
		}
		select {
		case <-changed:
		case <-p.ended:
		case <-ctx.Done():
		}
	}
}

// begin takes a session out of the line if it can be opened now, or never, which is the error. Else changed is closed
// once that may be otherwise.
func (w *Worker) begin(ctx context.Context, p *process, s *Session) (begun bool, changed <-chan struct{}, err error) {
	bound, o := w.pool.cfg.Memory, &p.openings
	o.mu.Lock()
	defer o.mu.Unlock()
	used := p.usage.read()
	if o.going.peak == 0 {
		o.settled = used
	}
	o.settled = max(o.settled, used-o.going.peak)   // runs take memory, too
	now := o.settled + o.going.peak + s.took.peak   // at most, if it is opened now
	later := o.settled + o.going.held + s.took.held // once it is open
	then := later                                   // at most, when those before it are opened after that
	for _, before := range o.line[:slices.Index(o.line, s)] {
		then = max(then, later+before.took.peak)
		later += before.took.held
	}
	switch {
	case isDead(p.ended):
		err = p.cause
	case ctx.Err() != nil:
		err = context.Cause(ctx)
	case bound == 0 || max(now, then) <= bound:
		o.going.peak += s.took.peak
		o.going.held += s.took.held
		begun = true
	case now > bound && o.going.peak == 0:
		err = &engine.Error{Kind: engine.OutOfMemory, Err: fmt.Errorf("opening the model takes %d MiB of memory, "+
			"and the engine's process %s has %d of %d MiB left; raise --worker-memory, unload other models, or run each "+
			"model in a process of its own (--isolation model)", s.took.peak>>20, w.name, max(0, bound-used)>>20, bound>>20)}
	default:
		return false, o.changed, nil
	}
	o.line = slices.DeleteFunc(o.line, func(other *Session) bool { return other == s })
	o.tellLocked()
	return begun, nil, err
}

// opened notes that the opening of a session has ended.
func (w *Worker) opened(p *process, s *Session) {
	o := &p.openings
	o.mu.Lock()
	defer o.mu.Unlock()
	o.going.peak -= s.took.peak
	o.going.held -= s.took.held
	o.settled += s.took.held
	if now := p.usage.read(); o.going.peak == 0 && now > 0 { // else it is dead
		w.rest.Store(now)
	}
	o.tellLocked()
}
