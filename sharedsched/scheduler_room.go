package sharedsched

import (
	"context"
	"errors"
	"time"
)

// room is the line of callers that wait for a full queue to have room, where the settings ask for waiting
// (WaitWhenFull). Nobody overtakes: a newcomer waits behind those who wait, and behind those who were called and have
// not come yet.
type room struct {
	line    []chan struct{} // first come first; closed to call
	called  int             // callers that were called and have not come yet
	account *Account        // of the version
}

// waiting returns how many callers have no answer yet.
func (r *room) waiting() int { return len(r.line) + r.called }

// mustWaitLocked reports whether a caller is to wait for room. called says that it was told there is some.
func (s *Scheduler) mustWaitLocked(v VersionID, t *Task, called bool) bool {
	if r := s.rooms[v]; !called && r != nil && r.waiting() > 0 {
		return true
	}
	version := s.core.version(v)
	return version != nil && version.settings.WaitWhenFull && t.Priority != Sheddable && s.core.Room(v) <= 0
}

// lineUpLocked puts a caller into the line, at its head if it was called in vain.
func (s *Scheduler) lineUpLocked(v VersionID, first bool) chan struct{} {
	r := s.rooms[v]
	if r == nil {
		r = &room{account: s.core.version(v).account}
		s.rooms[v] = r
	}
	if !first {
		r.account.Waits++
		r.account.Waiting++
	}
	c := make(chan struct{})
	r.line = append(r.line, c)
	if first {
		copy(r.line[1:], r.line)
		r.line[0] = c
	}
	return c
}

// callLocked calls as many callers as there is room for; all of them when nobody will be admitted any more, so that
// they hear why.
func (s *Scheduler) callLocked() {
	for v, r := range s.rooms { // the lines are independent of each other
		for len(r.line) > 0 && r.called < s.core.Room(v) {
			close(r.line[0])
			r.line = r.line[1:]
			r.called++
		}
		if r.waiting() == 0 {
			delete(s.rooms, v)
		}
	}
}

// awaitRoom waits until c is closed. It reports false, and takes the caller out of the line, when ctx or the limit ends
// first.
func (s *Scheduler) awaitRoom(ctx context.Context, v VersionID, c chan struct{}, limit Time) (bool, error) {
	var expired <-chan time.Time
	if limit != Never {
		t := time.NewTimer(limit.Sub(s.now()))
		defer t.Stop()
		expired = t.C
	}
	var err error
	select {
	case <-c:
		return true, nil
	case <-ctx.Done():
		err = context.Cause(ctx)
	case <-expired:
		err = ErrExpired
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	r := s.rooms[v]
	for i := range r.line {
		if r.line[i] == c {
			r.line = append(r.line[:i], r.line[i+1:]...)
			r.gaveUpLocked(err)
			s.callLocked()
			return false, err
		}
	}
	r.called-- // called at the same moment
	r.gaveUpLocked(err)
	s.callLocked()
	return false, err
}

// answeredLocked accounts for a caller that was called and then heard err from the scheduler. r is nil if it had not to
// wait.
func (r *room) answeredLocked(err error) {
	switch {
	case r == nil:
	case err == nil:
		r.leftLocked(WaitAdmitted)
	case errors.Is(err, ErrExpired):
		r.leftLocked(WaitExpired)
	default:
		r.leftLocked(WaitRefused)
	}
}

// gaveUpLocked accounts for a caller that waited no longer because of err.
func (r *room) gaveUpLocked(err error) {
	if errors.Is(err, ErrExpired) || errors.Is(err, context.DeadlineExceeded) {
		r.leftLocked(WaitExpired)
	} else {
		r.leftLocked(WaitCancelled)
	}
}

// leftLocked accounts for a caller whose wait has ended.
func (r *room) leftLocked(end WaitEnd) {
	r.account.Waiting--
	r.account.WaitsEnded[end]++
}
