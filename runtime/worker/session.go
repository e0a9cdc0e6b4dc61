//go:build linux

package worker

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weftserve/weft/internal/owntime"
	"github.com/weftserve/weft/runtime/engine"
	"github.com/weftserve/weft/runtime/tensor"
)

// Session is a session in a worker. It outlives the worker's processes: a run waits while the next one is started.
type Session struct {
	id     uint32
	worker *Worker
	source source
	memory *memory
	first  *opened // when it was opened first
	took   taken   // memory, then
	stats  atomic.Pointer[engine.Stats]
	life   atomic.Pointer[life]       // in the latest process
	again  sync.Mutex                 // held while it is opened again: the next life knows what the one before found
	doubt  atomic.Pointer[doubt]      // not nil: it was being opened when the worker's process died
	fatal  atomic.Pointer[DeathError] // how it ended a process where nothing else was; nil: it did not
	before uint64                     // how often the worker's process had died when it was opened

	running  sync.Mutex
	patience map[*owntime.Timer]struct{} // guarded by running; of the runs that go on
}

var _ engine.Session = (*Session)(nil)

func newSession(id uint32, of source, first *opened) *Session {
	of.device = first.Device // which may be another one than was asked for
	s := &Session{
		id: id, source: of, first: first, memory: &memory{slabs: map[*byte]*slab{}}, patience: map[*owntime.Timer]struct{}{},
	}
	s.stats.Store(&first.Stats)
	return s
}

// Signature returns the model's inputs and outputs, as the worker reported them.
func (s *Session) Signature() *tensor.Signature { return s.first.Signature }

// Run executes the model in the worker's process. When that dies the error is of the kind engine.Crashed. For a moment
// after the death the run waits for the next process; if it is not there then, or the session is not open there yet,
// the error is an *engine.ReopeningError, so that the caller of Run can do other work. It is of the kind
// engine.NotOpen if the session could not be opened there. A run that is to stop is told to; a process that does not
// obey within half a second is ended.
func (s *Session) Run(ctx context.Context, b *tensor.Batch) error {
	var l *lane
	for l == nil {
		p, changed, err := s.worker.present(ctx, s.worker.runPatience())
		switch {
		case err != nil:
			return err
		case p == nil:
			return reopening(changed)
		}
		now := s.life.Load()
		if now.process != p {
			continue // it has a successor
		}
		if !isDead(now.opened) {
			return reopening(now.opened)
		}
		if now.broken != nil {
			return now.broken
		}
		if l, err = p.take(s); err != nil && p.death() == nil {
			return err
		}
	}
	defer l.process.give(l)
	err := l.execute(ctx, s, b)
	if engine.KindOf(err) == engine.DeviceLost {
		s.worker.lose(err)
	}
	return err
}

// reopening is the error of a run that can begin once done is closed.
func reopening(done <-chan struct{}) error {
	return &engine.Error{Kind: engine.Terminated, Err: &engine.ReopeningError{Done: done}}
}

// Interrupt has the runs that go on stopped as if their patience were over.
func (s *Session) Interrupt() {
	s.running.Lock()
	defer s.running.Unlock()
	for t := range s.patience {
		if t.Stop() { // else the run is being stopped, and is late whenever it ends
			t.Reset(0)
		}
	}
}

// Stats returns what the worker reported with its latest answer, and the state of its process.
func (s *Session) Stats() engine.Stats {
	stats := *s.stats.Load()
	stats.Process = s.standing()
	return stats
}

// Close closes the session in its process. A process without sessions goes on, for the next one.
func (s *Session) Close() error { return s.worker.closeSession(s) }

// report takes the statistics that come with an answer.
func (s *Session) report(c *cursor) (took time.Duration) {
	took, stats := c.getStats()
	if !c.bad {
		s.stats.Store(&stats)
	}
	return took
}

// lend makes memory known to a process, and returns the number that it has there; 0: there are no bytes.
func (s *Session) lend(p *process, b []byte) (uint32, error) {
	m, err := s.memory.find(b)
	if err != nil || m == nil {
		return 0, err
	}
	if m.mapped.Load() != p {
		if err := p.send(&message{Kind: mapMessage, ID: m.id, Size: uint64(len(m.memory))}, m.file); err != nil {
			return 0, asCrash(err)
		}
		m.mapped.Store(p)
	}
	return m.id, nil
}
