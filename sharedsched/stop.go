package sharedsched

import "context"

// Hurry ends all holding of batches for their timeouts from now on, while tasks are admitted as before. A server that stops calls
// it when it takes no more requests and waits for those it has.
func (s *Scheduler) Hurry() {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.nowLocked(s.now())
	s.core.Hurry(now)
	s.trace.event("hurry", now, 0, nil)
	s.afterEventLocked(now, nil)
}

// Drain refuses further tasks with ErrDraining and returns when every admitted one has ended, or with the context's error.
func (s *Scheduler) Drain(ctx context.Context) error {
	s.mu.Lock()
	now := s.nowLocked(s.now())
	s.core.Drain(now)
	s.trace.event("drain", now, 0, nil)
	if s.empty == nil {
		s.empty = make(chan struct{})
	}
	empty := s.empty
	s.afterEventLocked(now, nil)
	s.mu.Unlock()
	select {
	case <-empty:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// Close abandons what waits, waits for the batches in flight, and ends the batch threads. It may be called more than once.
func (s *Scheduler) Close() {
	s.Abandon()
	s.done.Wait()
}

// Abandon ends tasks that have rows waiting with ErrClosed and takes no more. Batches in flight go on. Close must follow.
func (s *Scheduler) Abandon() {
	s.mu.Lock()
	var sc scratch
	if !s.closed {
		s.closed = true
		now := s.nowLocked(s.now())
		sc.acts = s.core.Close(now, sc.acts)
		s.trace.event("close", now, 0, sc.acts)
		s.afterEventLocked(now, &sc)
		s.timer.Stop()
		for _, t := range s.threads {
			t.signal()
		}
	}
	s.mu.Unlock()
	sc.answer()
}
