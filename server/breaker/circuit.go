package breaker

import (
	"fmt"
	"sync"
	"sync/atomic"
	"time"
)

// Phase says how a circuit treats new work.
type Phase string

// The phases, as metrics and messages spell them.
const (
	Closed   Phase = "closed"    // takes it
	Open     Phase = "open"      // takes none
	HalfOpen Phase = "half-open" // takes probes
)

// State is a circuit at one moment.
type State struct {
	Model   string
	Version int64
	State   Phase
	// Since is when State began.
	Since time.Time
	// Until is when an open circuit begins to take probes. Zero in other phases.
	Until time.Time
	// Requests, Errors and Slow count what is in the window, or the probes in a half-open circuit. In an open circuit
	// they are the counts that opened it.
	Requests, Errors, Slow int
	// Reason says in one sentence why State began. Empty for a circuit that never opened.
	Reason string
}

// circuit is the breaker of one version. It has a lock of its own; readers that only want to know whether it is closed
// take none.
type circuit struct {
	id     versionID
	closed atomic.Bool // for readers without mu: phase is Closed
	// answered is when the version last answered, in nanoseconds since 1970.
	answered atomic.Int64

	mu sync.Mutex
	// The following are guarded by mu.
	phase  Phase
	since  time.Time
	last   time.Time // when an outcome or a question came
	reason string
	window []ended // the last ones, a ring from at on, once it is full
	at     int
	counts [Fault + 1]int // of window
	pause  time.Duration  // the last one; 0: there was none
	lent   int            // probes let through that have not ended
	lentAt time.Time      // when the last of them was
	// trials is how many failed requests may be tried elsewhere now, excused the part of the latest that failed there
	// too, and owed what that comes to for requests that were not tried.
	trials, excused, owed float64
}

// ended is an outcome, and whose it was.
type ended struct {
	outcome Outcome
	by      uint64
}

func newCircuit(id versionID, now time.Time) *circuit {
	c := &circuit{id: id, phase: Closed, since: now, last: now, trials: mostTrials}
	c.closed.Store(true)
	return c
}

// heard returns the circuit's state and when it was last heard of.
func (c *circuit) heard() (time.Time, State) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.last, c.stateLocked()
}

func (c *circuit) stateLocked() State {
	s := State{
		Model: c.id.model, Version: c.id.version, State: c.phase, Since: c.since,
		Requests: len(c.window), Errors: c.counts[Fault], Slow: c.counts[Slow], Reason: c.reason,
	}
	if c.phase == Open {
		s.Until = c.since.Add(c.pause)
	}
	return s
}

// allow reports whether the request may pass, and returns the state that the circuit changed to, or none.
func (c *circuit) allow(now time.Time) (allowed bool, changed State) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.last = now
	changed = c.wakeLocked(now)
	switch c.phase {
	case Closed:
		return true, changed
	case Open:
		return false, changed
	case HalfOpen:
	}
	// A probe may never be judged: its outcome said nothing, or it went elsewhere.
	if c.lent > 0 && now.Sub(c.lentAt) >= openFor {
		c.lent = 0
	}
	if len(c.window)+c.lent >= probes {
		return false, changed
	}
	c.lent++
	c.lentAt = now
	return true, changed
}

// done returns the states that it changed to.
func (c *circuit) done(end ended, now time.Time) (woke, changed State) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.last = now
	if end.outcome != Fault { // which has asked for a trial
		c.earnLocked()
		c.answered.Store(now.UnixNano())
	}
	woke = c.wakeLocked(now)
	switch c.phase {
	case Closed:
		c.countLocked(end, window)
		n, errors, slow := len(c.window), c.counts[Fault], c.counts[Slow]
		if n < minRequests {
			return woke, State{}
		}
		switch {
		case reaches(errors, n) && c.severalLocked(Fault):
			changed = c.openLocked(now, fmt.Sprintf("%d of the last %d requests failed", errors, n))
		case reaches(slow, n) && c.severalLocked(Slow):
			changed = c.openLocked(now, fmt.Sprintf("%d of the last %d requests were slow", slow, n))
		}
	case Open: // a request that was not turned away; it is judged when the pause is over
	case HalfOpen:
		c.lent = max(0, c.lent-1)
		c.countLocked(end, probes)
		n, slow := len(c.window), c.counts[Slow]
		switch {
		case end.outcome == Fault:
			changed = c.openLocked(now, "a probe failed")
		case n < probes:
		case reaches(slow, n):
			changed = c.openLocked(now, fmt.Sprintf("%d of %d probes were slow", slow, n))
		default:
			changed = c.turnLocked(Closed, now, fmt.Sprintf("%d probes were answered", n))
		}
	}
	return woke, changed
}

// reaches reports whether a count is a large enough part to open the circuit.
func reaches(count, of int) bool { return count > 0 && float64(count) >= openRate*float64(of) }

// severalLocked reports whether the outcomes of a kind are those of more than one episode or caller.
func (c *circuit) severalLocked(o Outcome) bool {
	var first *ended
	for i := range c.window {
		switch e := &c.window[i]; {
		case e.outcome != o:
		case first == nil:
			first = e
		case e.by != first.by || e.by == 0:
			return true
		}
	}
	return false
}

// countLocked takes an outcome into a window of at most so many, in the place of the oldest once it is full.
func (c *circuit) countLocked(end ended, most int) {
	if len(c.window) < most {
		c.window = append(c.window, end)
	} else {
		c.counts[c.window[c.at].outcome]--
		c.window[c.at] = end
		c.at = (c.at + 1) % most
	}
	c.counts[end.outcome]++
}

// mayTry reports whether a request that failed may be tried elsewhere.
func (c *circuit) mayTry() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.earnLocked()
	if c.trials < 1 {
		return false
	}
	c.trials--
	return true
}

func (c *circuit) earnLocked() { c.trials = min(mostTrials, c.trials+trialRatio) }

// excuse takes in how a trial ended, and reports whether the version is excused: if there was none, as large a part is
// as of the latest that there were.
func (c *circuit) excuse(trial Trial) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	excused := trial == FailedToo
	if trial == Untried {
		if c.owed += c.excused; c.owed >= 1 {
			c.owed--
			excused = true
		}
		return excused
	}
	if c.excused *= 1 - trialWeight; excused {
		c.excused += trialWeight
	}
	return excused
}

// wakeLocked ends the pause of an open circuit.
func (c *circuit) wakeLocked(now time.Time) State {
	if c.phase != Open || now.Sub(c.since) < c.pause {
		return State{}
	}
	c.lent = 0
	return c.turnLocked(HalfOpen, now, fmt.Sprintf("%v passed", c.pause))
}

// openLocked opens the circuit. The pause is twice the one before where the circuit was half-open, or was closed for
// less time than that pause; else it is openFor.
func (c *circuit) openLocked(now time.Time, reason string) State {
	if c.phase == HalfOpen || c.pause > 0 && now.Sub(c.since) < c.pause {
		c.pause = min(2*c.pause, maxOpenFor)
	} else {
		c.pause = openFor
	}
	c.phase, c.since, c.reason = Open, now, reason
	c.closed.Store(false)
	return c.stateLocked() // with the window that opened it, which stays until probes come
}

// turnLocked begins a phase with an empty window.
func (c *circuit) turnLocked(phase Phase, now time.Time, reason string) State {
	c.phase, c.since, c.reason = phase, now, reason
	c.window, c.at, c.counts = c.window[:0], 0, [Fault + 1]int{}
	c.closed.Store(phase == Closed)
	return c.stateLocked()
}
