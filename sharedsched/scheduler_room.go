package sharedsched

import (
	"context"
	"time"
)

// room is the line of callers that wait for a full queue to have room, where the settings ask for waiting (WaitWhenFull). Nobody
// overtakes: a newcomer waits behind those who wait, and behind those who were called and have not come yet.
type room struct {
	line   []chan struct{} // first come first; closed to call
	called int             // callers that were called and have not come yet
}

// mustWaitLocked reports whether a caller is to wait for room. called says that it was told there is some.
func (s *Scheduler) mustWaitLocked(v VersionID, t *Task, called bool) bool {
	if len(s.rooms) > 0 {
		r := s.rooms[v]
		if called {
			r.called--
		} else if r != nil && len(r.line)+r.called > 0 {
			return true
		}
	}
	version := s.core.version(v)
	return version != nil && version.settings.WaitWhenFull && t.Priority != Sheddable && s.core.Room(v) <= 0
}

// lineUpLocked puts a caller into the line, at its head if it was called in vain.
func (s *Scheduler) lineUpLocked(v VersionID, first bool) chan struct{} {
	r := s.rooms[v]
	if r == nil {
		r = &room{}
		s.rooms[v] = r
	}
	c := make(chan struct{})
	r.line = append(r.line, c)
	if first {
		copy(r.line[1:], r.line)
		r.line[0] = c
	}
	return c
}

// callLocked calls as many callers as there is room for; all of them when nobody will be admitted any more, so that they hear why.
func (s *Scheduler) callLocked() {
	for v, r := range s.rooms { // the lines are independent of each other
		for len(r.line) > 0 && r.called < s.core.Room(v) {
			close(r.line[0])
			r.line = r.line[1:]
			r.called++
		}
		if len(r.line)+r.called == 0 {
			delete(s.rooms, v)
		}
	}
}

// awaitRoom waits until c is closed. It reports false, and takes the caller out of the line, when ctx or the limit ends first.
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
			s.callLocked()
			return false, err
		}
	}
	r.called-- // called at the same moment
	s.callLocked()
	return false, err
}
