// Package breaker decides whether a version of a model is fit for new work, from how its requests ended.
//
// Each version has a circuit of its own. It is closed while the version is fit. It opens when too many of the last
// requests failed or were slow, and new work goes elsewhere. After a pause it is half-open: a few probes are let
// through, and if they end well it closes, else the next pause is twice as long. So a version that has recovered comes
// back by itself.
//
// Requests that may not be turned away, such as those of running episodes, do not ask it; how they end counts all the
// same.
//
// # Why not a library
//
// sony/gobreaker and failsafe-go have circuits of one kind of failure, with one pause. Here failed and slow requests
// are judged by their own rates over the same window, each pause is twice the one before, a closed circuit costs a
// request one atomic load, and metrics and messages need its counts and its reason. With a library, two of its circuits
// per version and all of that would remain to be written; it would replace only circuit.allow and circuit.done.
package breaker

import (
	"cmp"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// Outcome is how a request ended, as far as that says something about the version.
type Outcome uint8

// The outcomes.
const (
	// Ignored says nothing about the version: overload, cancellation, a deadline, an invalid request, an input that
	// fails while others of its batch are answered.
	Ignored Outcome = iota
	// OK is an answer, which may turn out to be Slow.
	OK
	// Slow is an answer that the caller knows to be slower than the version's objective, regardless of Config.Latency.
	Slow
	// Fault is a failure of the model.
	Fault
)

// Config holds the settings of a Breaker. Zero values are defaults.
type Config struct {
	// Window is how many of a version's last requests are judged; 0: 20. Too low: chance opens it. Too high: it opens
	// late.
	Window int
	// MinRequests is how many there must be before the circuit opens, at most Window; 0: 10, or Window if that is less.
	MinRequests int
	// ErrorRate is the part of them that failed from which on it opens; 0: 0.5.
	ErrorRate float64
	// Latency is the time in the model beyond which an answer is slow; 0: none is.
	Latency time.Duration
	// LatencyRate is the part of them that was slow from which on it opens; 0: 0.5.
	LatencyRate float64
	// OpenFor is the first pause; 0: 5 s. It doubles each time that probes fail, and when the circuit opens again after
	// less time closed than its last pause. Too low: more requests fail as probes. Too high: a recovered version waits.
	OpenFor time.Duration
	// MaxOpenFor is the longest pause; 0: 5 min, or OpenFor if that is more.
	MaxOpenFor time.Duration
	// Probes is how many requests decide in a half-open circuit, and how many are let through until they have ended or
	// OpenFor has passed; 0: 3.
	Probes int
	// OnChange is called after a circuit changed its phase, with no lock held, by the goroutine whose call changed it;
	// it must not block. Calls for changes at the same moment may come in another order. Nil: changes are not reported.
	OnChange func(State)
	// Now is the clock; nil: time.Now.
	Now func() time.Time
}

func (c Config) withDefaults() Config {
	c.Window = cmp.Or(max(c.Window, 0), 20)
	c.MinRequests = min(cmp.Or(max(c.MinRequests, 0), 10), c.Window)
	c.ErrorRate = cmp.Or(c.ErrorRate, 0.5)
	c.LatencyRate = cmp.Or(c.LatencyRate, 0.5)
	c.OpenFor = cmp.Or(max(c.OpenFor, 0), 5*time.Second)
	c.MaxOpenFor = max(cmp.Or(c.MaxOpenFor, 5*time.Minute), c.OpenFor)
	c.Probes = cmp.Or(max(c.Probes, 0), 3)
	if c.Now == nil {
		c.Now = time.Now
	}
	return c
}

// forgetAfter is how long a circuit without requests is kept, since versions come and go.
const forgetAfter = time.Hour

type versionID struct {
	model   string
	version int64
}

// Breaker has the circuits of all versions that had requests in the last hour. It is safe for concurrent use and starts
// no goroutine: its calls read the clock.
type Breaker struct {
	config Config

	circuits atomic.Pointer[map[versionID]*circuit] // replaced whole, so that Allow takes no lock of all
	adding   sync.Mutex                             // held while it is replaced
}

// New returns a breaker whose circuits are closed.
func New(c Config) *Breaker {
	b := &Breaker{config: c.withDefaults()}
	b.circuits.Store(&map[versionID]*circuit{})
	return b
}

// Allow reports whether the version may take new work. In a half-open circuit a true is one of the probes.
func (b *Breaker) Allow(model string, version int64) bool {
	c := (*b.circuits.Load())[versionID{model, version}]
	if c == nil || c.closed.Load() {
		return true
	}
	allowed, changed := c.allow(&b.config, b.config.Now())
	b.tell(changed)
	return allowed
}

// Done reports how a request ended and the time that it took in the model, which is judged for OK alone.
func (b *Breaker) Done(model string, version int64, outcome Outcome, compute time.Duration) {
	if outcome == Ignored {
		return
	}
	if outcome == OK && b.config.Latency > 0 && compute > b.config.Latency {
		outcome = Slow
	}
	now := b.config.Now()
	c := (*b.circuits.Load())[versionID{model, version}]
	if c == nil {
		c = b.add(versionID{model, version}, now)
	}
	b.tell(c.done(&b.config, outcome, now))
}

// add returns the circuit of a version, new unless another goroutine was faster, and forgets circuits without requests.
func (b *Breaker) add(id versionID, now time.Time) *circuit {
	b.adding.Lock()
	var forgotten []State
	known := maps.Clone(*b.circuits.Load())
	c := known[id]
	if c == nil {
		for id, old := range known {
			if last, state := old.heard(); now.Sub(last) > forgetAfter {
				delete(known, id)
				if state.State != Closed {
					state.State, state.Since, state.Until, state.Reason = Closed, now, time.Time{},
						"nothing was heard of it for an hour"
					forgotten = append(forgotten, state)
				}
			}
		}
		c = newCircuit(id, now)
		known[id] = c
		b.circuits.Store(&known)
	}
	b.adding.Unlock()
	b.tell(forgotten...)
	return c
}

func (b *Breaker) tell(changes ...State) {
	for _, s := range changes {
		if b.config.OnChange != nil && s.Model != "" {
			b.config.OnChange(s)
		}
	}
}

// States returns the circuits that are known, by model and version.
func (b *Breaker) States() []State {
	var states []State
	for _, c := range *b.circuits.Load() {
		_, s := c.heard()
		states = append(states, s)
	}
	slices.SortFunc(states, func(a, b State) int {
		return cmp.Or(cmp.Compare(a.Model, b.Model), cmp.Compare(a.Version, b.Version))
	})
	return states
}
