package shell

import (
	"context"
	"slices"

	"github.com/weftserve/weft/sharedsched"
)

// Hurry ends all holding of batches for their timeouts from now on, while tasks are admitted as before. A server that
// stops calls it when it takes no more requests and waits for those it has.
func (s *Scheduler) Hurry() {
	_, _ = s.tell(&sharedsched.Event{Kind: sharedsched.EventHurry}) // it has no error
}

// Drain refuses further tasks with ErrDraining and returns when every admitted one has ended, or with the context's
// error.
func (s *Scheduler) Drain(ctx context.Context) error {
	_, _ = s.tell(&sharedsched.Event{Kind: sharedsched.EventDrain}) // it has no error
	s.mu.Lock()
	if s.empty == nil {
		s.empty = make(chan struct{})
	}
	empty := s.empty
	s.checkEmptyLocked()
	s.mu.Unlock()
	select {
	case <-empty:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// Close abandons the waiting tasks, waits for the batches in flight, ends the batch threads, and writes the rest of the
// trace. It does not wait for hanging lanes of devices that were removed. It may be called more than once.
func (s *Scheduler) Close() {
	s.Abandon()
	s.mu.Lock()
	crews := slices.Clone(s.crews)
	s.mu.Unlock()
	for _, c := range crews {
		<-c.ended
	}
	s.closeTrace()
}

// Abandon ends tasks that have rows waiting with ErrClosed and takes no more. Batches in flight go on. Close must
// follow.
func (s *Scheduler) Abandon() {
	s.mu.Lock()
	var sc scratch
	if !s.closed {
		s.closed = true
		close(s.abandoned)
		now := s.nowLocked(s.now())
		_ = s.stepLocked(now, &sharedsched.Event{Kind: sharedsched.EventClose}, &sc.Answer) // it has no error
		s.afterEventLocked(now, &sc)
		s.timer.Stop()
		for _, c := range s.crews {
			c.wakeAll()
		}
	}
	s.mu.Unlock()
	sc.answer()
}

// Abandoned returns a channel that Abandon closes, for callers that wait outside of the scheduler to hand it a task.
func (s *Scheduler) Abandoned() <-chan struct{} { return s.abandoned }
