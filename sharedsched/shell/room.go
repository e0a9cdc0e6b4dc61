package shell

import (
	"context"
	"errors"
	"time"

	"github.com/weftserve/weft/sharedsched"
)

// place is what callers wait for room in: each identity has its own of each version.
type place struct {
	version  sharedsched.VersionID
	identity string
}

// room is the line of callers that wait for a place to have room, where the settings ask for waiting (WaitWhenFull). No
// caller overtakes: a newcomer waits behind the callers that wait, and behind callers that were called and have not
// come yet.
type room struct {
	line   []chan struct{} // first come first; closed to call
	called int             // callers that were called and have not come yet
	waits  *waits          // of the version, under its name
}

// waiting returns how many callers have no answer yet.
func (r *room) waiting() int { return len(r.line) + r.called }

// mustWaitLocked reports whether a caller is to wait for room. called says that it was called because there is some.
func (s *Scheduler) mustWaitLocked(at place, t *sharedsched.Task, called bool) bool {
	if r := s.rooms[at]; !called && r != nil && r.waiting() > 0 {
		return true
	}
	set := s.core.Settings(at.version)
	return set != nil && set.WaitWhenFull && t.Priority != sharedsched.Sheddable &&
		s.core.Room(at.version, at.identity) <= 0
}

// lineUpLocked puts a caller into the line, at its head if it was called and found no room.
func (s *Scheduler) lineUpLocked(at place, first bool) chan struct{} {
	r := s.rooms[at]
	if r == nil {
		r = &room{waits: s.waitsLocked(at.version)}
		s.rooms[at] = r
	}
	if !first {
		r.waits.begun++
		r.waits.open++
	}
	c := make(chan struct{})
	r.line = append(r.line, c)
	if first {
		copy(r.line[1:], r.line)
		r.line[0] = c
	}
	return c
}

// callLocked calls as many callers as there is room for; all of them when none will be admitted any more, so that they
// learn the reason.
func (s *Scheduler) callLocked() {
	for at, r := range s.rooms { // the lines are independent of each other
		for len(r.line) > 0 && r.called < s.core.Room(at.version, at.identity) {
			close(r.line[0])
			r.line = r.line[1:]
			r.called++
		}
		if r.waiting() == 0 {
			delete(s.rooms, at)
		}
	}
}

// awaitRoom waits until c is closed. It reports false, and takes the caller out of the line, when ctx or the limit ends
// first.
func (s *Scheduler) awaitRoom(
	ctx context.Context, at place, c chan struct{}, limit sharedsched.Time,
) (bool, error) {
	var expired <-chan time.Time
	if limit != sharedsched.Never {
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
		err = sharedsched.ErrExpired
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	r := s.rooms[at]
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

// answeredLocked accounts for a caller that was called and then got err from the scheduler. r is nil if it did not have
// to wait.
func (r *room) answeredLocked(err error) {
	switch {
	case r == nil:
	case err == nil:
		r.leftLocked(sharedsched.WaitAdmitted)
	case errors.Is(err, sharedsched.ErrExpired):
		r.leftLocked(sharedsched.WaitExpired)
	default:
		r.leftLocked(sharedsched.WaitRefused)
	}
}

// gaveUpLocked accounts for a caller that waited no longer because of err.
func (r *room) gaveUpLocked(err error) {
	if errors.Is(err, sharedsched.ErrExpired) || errors.Is(err, context.DeadlineExceeded) {
		r.leftLocked(sharedsched.WaitExpired)
	} else {
		r.leftLocked(sharedsched.WaitCancelled)
	}
}

// leftLocked accounts for a caller whose wait has ended.
func (r *room) leftLocked(end sharedsched.WaitEnd) {
	r.waits.open--
	r.waits.ended[end]++
}

// waits counts the callers that waited for room of one version on one device since the start. Like the rest of an
// Account, which it is a part of, it goes on when the version comes again under that name.
type waits struct {
	begun uint64
	ended [sharedsched.WaitCancelled + 1]uint64
	open  int
}

// named is a version on a device, as an Account names it.
type named struct{ version, device string }

// waitsLocked returns the counts of a version, new ones if no caller has waited for it yet.
func (s *Scheduler) waitsLocked(v sharedsched.VersionID) *waits {
	var key named
	key.version, key.device = s.core.Names(v)
	if s.waits[key] == nil {
		s.waits[key] = &waits{}
	}
	return s.waits[key]
}

// tellOfRoomsLocked completes a state with the callers that wait for room, which Core does not know.
func (s *Scheduler) tellOfRoomsLocked(state *sharedsched.State) {
	waiting := map[sharedsched.VersionID]int{}
	for at, r := range s.rooms {
		waiting[at.version] += r.waiting()
	}
	for i := range state.Versions {
		state.Versions[i].Waiting = waiting[state.Versions[i].ID]
	}
	for i := range state.Accounts {
		a := &state.Accounts[i]
		if w := s.waits[named{a.Name, a.Device}]; w != nil {
			a.Waits, a.WaitsEnded, a.Waiting = w.begun, w.ended, w.open
		}
	}
}
