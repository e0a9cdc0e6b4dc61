package shell

import (
	"context"
	"time"

	"github.com/weftserve/weft/sharedsched"
)

// op is one call of Do that waits for its task.
type op struct {
	done    chan struct{} // capacity 1, so that an answer never blocks the batch thread
	end     sharedsched.End
	ended   sharedsched.Time // when that was
	err     error            // for EndFailed and EndAgain
	outcome sharedsched.Outcome
	dropped *sharedsched.Refusal // for EndDropped
	waited  time.Duration        // until there was room
	payload any                  // the task's
	scratch scratch
}

// scratch is memory for the results of events: Core's answer, and the callers whose tasks have ended.
type scratch struct {
	sharedsched.Answer
	ended []*op
}

// Do submits a task and waits until it ends. It returns only when the task's payload will not be read any more: when
// ctx ends, a task that still has rows waiting is taken out at once and the error is the context's cause; a task all of
// whose rows are running is waited for, and answered. Other errors: those of EventSubmit, ErrExpired, ErrClosed,
// ErrRemoved, and the errors that the Executor set on a span.
func (s *Scheduler) Do(ctx context.Context, v sharedsched.VersionID, t *sharedsched.Task) (sharedsched.Outcome, error) {
	if ctx.Err() != nil {
		return sharedsched.Outcome{}, context.Cause(ctx)
	}
	o := s.ops.Get().(*op)
	defer s.recycle(o)
	h, err := s.admit(ctx, v, t, o)
	if err != nil {
		return sharedsched.Outcome{}, err
	}

	select {
	case <-o.done:
	case <-ctx.Done():
		s.cancel(h, o)
		<-o.done
	}
	o.outcome.Queue += o.waited
	switch o.end {
	case sharedsched.EndDone:
		s.delivery.took(s.now().Sub(o.ended))
		return o.outcome, nil
	case sharedsched.EndFailed, sharedsched.EndAgain:
		return o.outcome, o.err
	case sharedsched.EndCancelled:
		err = context.Cause(ctx)
	case sharedsched.EndExpired:
		err = sharedsched.ErrExpired
	case sharedsched.EndClosed:
		err = sharedsched.ErrClosed
	case sharedsched.EndDropped:
		err = o.dropped
	case sharedsched.EndRemoved:
		err = sharedsched.ErrRemoved
	}
	return o.outcome, err
}

// admit hands the task to Core, after waiting for room if need be.
func (s *Scheduler) admit(
	ctx context.Context, v sharedsched.VersionID, t *sharedsched.Task, o *op,
) (sharedsched.Handle, error) {
	o.waited = 0
	read := s.now() // reading the clock takes as long as all the rest that the lock is held for
	s.mu.Lock()
	now := s.nowLocked(read)
	limit := sharedsched.Never
	if !t.Limit.IsZero() {
		limit = sharedsched.Time(t.Limit.Sub(s.epoch))
	}
	at := place{v, t.Identity}
	var r *room // that it was called from
	for arrival := now; ; {
		if s.closed {
			r.answeredLocked(sharedsched.ErrClosed)
			s.mu.Unlock()
			return 0, sharedsched.ErrClosed
		}
		o.scratch.reset()
		if !s.mustWaitLocked(at, t, r != nil) {
			ev := sharedsched.Event{Kind: sharedsched.EventSubmit, Version: v, Task: t, Limit: s.delivery.before(limit, now)}
			err := s.stepLocked(now, &ev, &o.scratch.Answer)
			h := o.scratch.Task
			if len(o.scratch.Actions) > 0 {
				s.settleLocked(&o.scratch) // first: the task may have got the slot of one that made room for it
			}
			if err == nil {
				s.wait(h, o, t.Payload)
			}
			r.answeredLocked(err)
			s.afterEventLocked(now, &o.scratch)
			s.mu.Unlock()
			o.scratch.answer()
			return h, err
		}
		line := s.lineUpLocked(at, r != nil)
		if known := s.core.Settings(v); limit == sharedsched.Never && known != nil {
			limit = known.Limit(arrival)
		}
		s.mu.Unlock()
		if ok, err := s.awaitRoom(ctx, at, line, limit); !ok {
			return 0, err
		}
		read = s.now()
		s.mu.Lock()
		now = s.nowLocked(read)
		r = s.rooms[at]
		r.called--
		o.waited = now.Sub(arrival)
		if t.Target > 0 { // it counts from the arrival
			late := *t
			late.Target = max(1, t.Target-o.waited)
			t = &late
		}
	}
}

// recycle gives an op back, without the references that it would keep alive.
func (s *Scheduler) recycle(o *op) {
	o.err, o.payload, o.dropped = nil, nil, nil
	s.ops.Put(o)
}

// wait notes the caller that waits for an admitted task.
func (s *Scheduler) wait(h sharedsched.Handle, o *op, payload any) {
	o.payload = payload
	for int(h.Slot()) >= len(s.waiting) {
		s.waiting = append(s.waiting, nil)
	}
	s.waiting[h.Slot()] = o
}

// cancel takes a task out whose caller has gone. If it ran already, o is notified of its end as usual.
func (s *Scheduler) cancel(h sharedsched.Handle, o *op) {
	s.mu.Lock()
	o.scratch.reset()
	now := s.nowLocked(s.now())
	ev := sharedsched.Event{Kind: sharedsched.EventCancel, Handle: h}
	_ = s.stepLocked(now, &ev, &o.scratch.Answer) // it has no error
	s.afterEventLocked(now, &o.scratch)
	s.mu.Unlock()
	o.scratch.answer()
}

// reset empties the scratch and keeps its memory.
func (sc *scratch) reset() {
	clear(sc.ended)
	sc.Actions, sc.ended = sc.Actions[:0], sc.ended[:0]
}

// answer wakes the callers of ended tasks. Their ops belong to them from then on.
func (sc *scratch) answer() {
	for i, o := range sc.ended {
		sc.ended[i] = nil
		o.done <- struct{}{}
	}
	sc.ended = sc.ended[:0]
}
