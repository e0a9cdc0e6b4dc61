// Package owntime measures the time that processes really had, so that none is blamed for what it could not do.
//
// A process that is stopped, or waits for a processor, or whose machine stands still, does nothing meanwhile. Anybody
// who judges by the system's time takes it for one that hangs. A Clock goes on only while its process had a processor
// or slept of its own will. So one that computes for ever, or waits for ever for something that does not come, has all
// the time there is, and is found out as before.
//
// # What counts
//
// The clocks are set at looks, ten each second, and two once nobody has asked for a while. Of the time between two
// looks a process did not have
//
//   - what the look is late, since nothing went on in this process meanwhile: it was stopped, or the machine was;
//   - what its threads waited for a processor (/proc/PID/task/TID/schedstat), and its part of what the machine was kept
//     from running by the machines that it shares its own processors with (steal, of /proc/stat);
//   - for another process, all of it, while that is stopped: for up to 12 s at a time, since nothing else would end one
//     that is stopped for ever.
//
// But what it computed counts in any case: one that had as much processor time as time passed had that time, however
// many more threads it has that want some. And no process had more time than this one, which has to hear of what others
// do.
//
// Where the system does not tell, all time counts but that of late looks.
package owntime

import (
	"context"
	"os"
	"runtime"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// every is the time between looks, and rest that after quiet looks between which nobody asked and no timer ran: each
	// look wakes a process that sleeps otherwise. A look that comes later than that by every is late.
	every, rest = 100 * time.Millisecond, 500 * time.Millisecond
	quiet       = 50
	// soon is the least time between two looks: a sooner one would measure mostly itself.
	soon = 5 * time.Millisecond
	// pauseMost is how long a process may be stopped without that time counting against it.
	pauseMost = 12 * time.Second
)

// Clock measures the time that a process had. It is safe for concurrent use. A nil Clock is the system's.
type Clock struct {
	looks   *looks
	process *process     // nil: all of the looks; the one with the least time counts
	judging atomic.Int32 // timers that run; while none does, another process is not looked at

	// mu is held for a moment by each look, and by readers of the clock.
	mu   sync.Mutex
	lost curve // guarded by mu; the time that the process did not have
}

// looks is what the clocks of this process, and of the processes that it follows, have in common. A look holds mu, and
// then the mu of each clock in turn.
type looks struct {
	latest   atomic.Pointer[time.Time] // nil: nobody looks
	next     atomic.Int64              // the time from the latest look to the next, in nanoseconds
	asked    atomic.Bool               // since the latest look
	own, all *Clock

	mu       sync.Mutex          // held by a look
	ended    bool                // guarded by mu; Run has returned
	quiet    int                 // guarded by mu; looks in a row between which nobody asked
	machine  machine             // guarded by mu
	followed map[*Clock]struct{} // guarded by mu
}

// New returns the clock of this process. Time counts as the system's while Run does not run.
func New() *Clock {
	l := &looks{followed: map[*Clock]struct{}{}}
	l.own, l.all = &Clock{looks: l, process: &process{pid: os.Getpid()}}, &Clock{looks: l}
	return l.own
}

// All returns the clock of this process and of all that it follows. A time that one of them did not have is no time of
// theirs together. But time in which together they had all processors counts, even if they kept each other from
// running.
func (c *Clock) All() *Clock {
	if c == nil {
		return nil
	}
	return c.looks.all
}

// Follow returns the clock of another process. Call Forget before that process is waited for, after which its number
// may be another's.
func (c *Clock) Follow(pid int) *Clock {
	if c == nil {
		return nil
	}
	of := &Clock{looks: c.looks, process: &process{pid: pid}}
	c.looks.mu.Lock()
	defer c.looks.mu.Unlock()
	c.looks.followed[of] = struct{}{}
	return of
}

// Forget stops setting the clock: its process ends. The clock can still be read.
func (c *Clock) Forget() {
	if c != nil {
		c.looks.mu.Lock()
		defer c.looks.mu.Unlock()
		delete(c.looks.followed, c)
	}
}

// Run looks until ctx ends. Call it once. While it does not run, time counts as the system's.
func (c *Clock) Run(ctx context.Context) {
	defer c.looks.end()
	next := time.NewTimer(0)
	defer next.Stop()
	for {
		select {
		case <-next.C:
			c.looks.look()
			next.Reset(c.looks.pace())
		case <-ctx.Done():
			return
		}
	}
}

// end makes time count as the system's again. It waits for the look of a timer that is under way.
func (l *looks) end() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.ended = true
	l.latest.Store(nil)
}

// look sets all clocks by what happened since the latest look. Run calls it, and each timer before it fires.
func (l *looks) look() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ended {
		return
	}
	now := time.Now()
	if l.latest.Load() == nil {
		l.latest.Store(&now)
	}
	from := *l.latest.Load()
	took := now.Sub(from)
	if took < soon {
		return
	}
	l.machine.look(took)
	used, least := l.own.process.look(took, &l.machine, true)
	// A late look says that this process did not run. But what it computed meanwhile it had, and one interval is usual.
	if pace := l.pace(); took > pace+every {
		least = max(least, min(took-pace, took-used))
	}
	l.own.lose(from, now, least)
	judged := l.asked.Swap(false) || l.own.judging.Load() > 0 || l.all.judging.Load() > 0
	together, most := used, least
	for c := range l.followed {
		runs := c.judging.Load() > 0
		judged = judged || runs
		used, lost := c.process.look(took, &l.machine, runs)
		c.lose(from, now, max(lost, least))
		together, most = together+used, max(most, lost)
	}
	// All processors times the time that passed is the most that they could have together.
	l.all.lose(from, now, min(most, took-together/time.Duration(runtime.GOMAXPROCS(0))))
	l.latest.Store(&now)
	if l.quiet++; judged {
		l.quiet = 0
	}
	l.next.Store(int64(every))
	if l.quiet > quiet {
		l.next.Store(int64(rest))
	}
}

// pace returns the time from the latest look to the next.
func (l *looks) pace() time.Duration { return max(every, time.Duration(l.next.Load())) }

// lose notes how much of a time the process did not have.
func (c *Clock) lose(from, to time.Time, lost time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.lost.add(from, to, lost)
}

// Since returns how much time the process had since then.
func (c *Clock) Since(then time.Time) time.Duration { return time.Since(then) - c.Lost(then) }

// Lost returns how much time the process did not have since then.
func (c *Clock) Lost(since time.Time) time.Duration {
	if c == nil {
		return 0
	}
	c.looks.asked.Store(true)
	c.mu.Lock()
	defer c.mu.Unlock()
	now := time.Now()
	lost := c.lost.at(now) + c.unseen(now) - c.lost.at(since)
	return min(lost, now.Sub(since)) // the latest look may have been long before
}

// unseen is the time that was probably lost since the latest look, if the next one is late. The caller holds mu.
func (c *Clock) unseen(now time.Time) time.Duration {
	if latest := c.looks.latest.Load(); latest != nil {
		if passed, pace := now.Sub(*latest), c.looks.pace(); passed > pace+every {
			return passed - pace
		}
	}
	return 0
}

// Short reports whether the process had less than half of some recent time that ends now. A measure of callers from
// that time says nothing about them, since their time ran on. After a stop the clock stays short for about as long as
// the stop.
func (c *Clock) Short() bool {
	if c == nil {
		return false
	}
	c.looks.asked.Store(true)
	c.mu.Lock()
	defer c.mu.Unlock()
	now := time.Now()
	return c.unseen(now) > 0 || c.lost.steep(now)
}
