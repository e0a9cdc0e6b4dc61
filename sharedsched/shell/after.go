package shell

import (
	"sync/atomic"
	"time"

	"github.com/weftserve/weft/sharedsched"
)

// afterEventLocked follows every event of Core: callers of ended tasks are found, batch threads that have work are
// woken, and the timer is set.
func (s *Scheduler) afterEventLocked(now sharedsched.Time, sc *scratch) {
	if len(sc.Actions) > 0 {
		s.settleLocked(sc)
	}
	if len(s.rooms) > 0 {
		s.callLocked()
	}
	if s.empty != nil {
		s.checkEmptyLocked()
	}
	if s.idle > 0 {
		s.wakeThreadsLocked(now)
	}
	if wake := s.core.NextWake(); wake < s.armed {
		s.rearmLocked(now, wake)
	}
}

// settleLocked carries out the actions that need the lock: it finds the callers of ended tasks before their slots are
// used again.
func (s *Scheduler) settleLocked(sc *scratch) {
	for i := range sc.Actions {
		switch a := &sc.Actions[i]; a.Kind {
		case sharedsched.TaskEnded:
			o := s.waiting[a.Task.Slot()]
			s.waiting[a.Task.Slot()] = nil
			o.end, o.ended, o.outcome = a.End, s.latest, *a.Outcome
			if a.End == sharedsched.EndDropped {
				o.dropped = a.Refusal()
			}
			sc.ended = append(sc.ended, o)
		case sharedsched.VersionGone:
			if gone := s.gone[a.Version]; gone != nil {
				close(gone)
				delete(s.gone, a.Version)
			}
		}
	}
	sc.Actions = sc.Actions[:0]
}

// checkEmptyLocked wakes the callers of Drain when no task is left.
func (s *Scheduler) checkEmptyLocked() {
	if s.core.Live() > 0 {
		return
	}
	select {
	case <-s.empty:
	default:
		close(s.empty)
	}
}

// rearmLocked sets the timer to the time that Core asked for. A timer that fires early finds nothing to do and is set
// again, which is cheaper than moving it whenever the earliest task ends.
func (s *Scheduler) rearmLocked(now, wake sharedsched.Time) {
	if !s.closed {
		s.armed = wake
		s.timer.Reset(max(0, wake.Sub(now)))
	}
}

// onTimer lets Core know that time has passed.
func (s *Scheduler) onTimer() {
	var sc scratch
	s.mu.Lock()
	now := s.nowLocked(s.now())
	s.armed = sharedsched.Never
	_ = s.stepLocked(now, &sharedsched.Event{Kind: sharedsched.EventAdvance}, &sc.Answer) // it has no error
	s.afterEventLocked(now, &sc)
	s.mu.Unlock()
	sc.answer()
}

// delivery is how long an answer takes from the end of its batch until its caller goes on, which is nothing on an idle
// machine and milliseconds on a busy one. It is learnt, on the high side: it grows by a quarter of what an answer took
// longer, and shrinks by a 32nd of what it took less.
type delivery struct{ learnt atomic.Int64 }

func (d *delivery) took(t time.Duration) {
	was := time.Duration(d.learnt.Load())
	by := (t - was) / 32
	if t > was {
		by = (t - was) / 4
	}
	d.learnt.Store(int64(was + by)) // of two at once one may be lost
}

// before returns by when a batch is to end so that an answer is delivered at the limit; at most an eighth of the time
// that is left is kept for that, so that what is out of the ordinary shuts nobody out.
func (d *delivery) before(limit, now sharedsched.Time) sharedsched.Time {
	if limit <= now || limit == sharedsched.Never {
		return limit
	}
	return limit - min(sharedsched.Time(d.learnt.Load()), (limit-now)/8)
}
