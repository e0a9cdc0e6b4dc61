// Package breaker decides whether a version of a model is fit for new work, from how its requests ended.
//
// Each version has a circuit of its own. It is closed while the version is fit. It opens when too many of the last
// requests failed or were slow, and new work goes elsewhere. After a pause it is half-open: a few probes are let
// through, and if they end well it closes, else the next pause is twice as long. So a version that has recovered comes
// back by itself.
//
// Requests that may not be turned away, such as those of running episodes, do not ask it, but how they end still
// counts.
//
// A request that failed may be tried on another version, which tells whose fault that is. As with a budget of retries,
// only a part of a version's requests is. Of the rest as large a part is excused as of those.
//
// # Why not a library
//
// sony/gobreaker and failsafe-go have circuits of one kind of failure, with one pause, whatever failed. Here failed and
// slow requests of several callers are judged over one window, each pause is twice the one before, and metrics and
// messages need the counts and the reason. A library would replace only circuit.allow and circuit.done.
package breaker

import (
	"cmp"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// Outcome is how a request ended, as far as that says something about the version. It is about the model, not about the
// request: an answer that came after its target, late, is OK if the model was quick.
type Outcome uint8

// The outcomes.
const (
	// Ignored says nothing about the version: overload, cancellation, a deadline, an invalid request, an input that
	// fails while others of its batch are answered, or on another version too.
	Ignored Outcome = iota
	// OK is an answer.
	OK
	// Slow is an answer that took the model longer than the version's objective.
	Slow
	// Fault is a failure of the model.
	Fault
)

// Trial is how a request that failed on a version ended on another one.
type Trial uint8

// The ends of trials.
const (
	Untried Trial = iota // or nobody knows
	AnsweredElsewhere
	FailedToo
)

const (
	// window is how many of a version's last requests are judged: of fewer, chance opens a circuit; of more, it opens
	// late. There must be minRequests before it opens.
	window, minRequests = 20, 10
	// openRate is the part of them that failed, or the part that was slow, from which on it opens.
	openRate = 0.5
	// openFor is the first pause. It doubles each time that probes fail, and when the circuit opens again after less
	// time closed than its last pause, up to maxOpenFor. Shorter, more requests fail as probes; longer, a recovered
	// version waits.
	openFor, maxOpenFor = 5 * time.Second, 5 * time.Minute
	// probes is how many requests decide in a half-open circuit, and how many are let through until they have ended or
	// openFor has passed.
	probes = 3
	// trialRatio is how many trials elsewhere each request of a version earns, mostTrials how many it may save, and
	// trialWeight how much the latest counts for requests that are not tried.
	trialRatio, mostTrials, trialWeight = 0.1, 20.0, 0.1
	// answeredLately is how long ago a version may have answered last to be a witness against an input.
	answeredLately = 10 * time.Second
)

// forgetAfter is how long a circuit without requests is kept, since versions come and go.
const forgetAfter = time.Hour

// versionID names a version. One that is loaded again under its number goes on with its circuit.
type versionID struct {
	model   string
	version int64
}

// Breaker has the circuits of all versions that had requests in the last hour. It is safe for concurrent use and starts
// no goroutine: its calls read the clock.
type Breaker struct {
	onChange func(State)

	circuits atomic.Pointer[map[versionID]*circuit] // replaced whole, so that Allow takes no lock of all
	adding   sync.Mutex                             // held while it is replaced
}

// New returns a breaker whose circuits are closed. onChange is called after a circuit changed its phase, with no lock
// held, by the goroutine whose call changed it; it must not block. Calls for changes at the same moment may come in
// another order.
func New(onChange func(State)) *Breaker {
	b := &Breaker{onChange: onChange}
	b.circuits.Store(&map[versionID]*circuit{})
	return b
}

// Allow reports whether the version may take new work. In a half-open circuit a true is one of the probes.
func (b *Breaker) Allow(model string, version int64) bool {
	c := (*b.circuits.Load())[versionID{model, version}]
	if c == nil || c.closed.Load() {
		return true
	}
	allowed, changed := c.allow(time.Now())
	b.tell(changed)
	return allowed
}

// Fit reports whether the version takes all new work: nothing keeps any from it.
func (b *Breaker) Fit(model string, version int64) bool {
	c := (*b.circuits.Load())[versionID{model, version}]
	return c == nil || c.closed.Load()
}

// Done reports how a request ended. by is its episode or caller, as a number; no single one opens a circuit. 0: it has
// none.
func (b *Breaker) Done(model string, version int64, outcome Outcome, by uint64) {
	if outcome == Ignored {
		return
	}
	now := time.Now()
	b.tell(b.circuit(model, version, now).done(ended{outcome, by}, now))
}

// Excuse reports whether a version is not to blame for a request that failed on it, which try runs on another one if it
// may: what fails there too is the caller's mistake, unless neither version has answered anybody of late.
func (b *Breaker) Excuse(model string, version, other int64, try func() Trial) bool {
	now, trial := time.Now(), Untried
	c := b.circuit(model, version, now)
	if c.mayTry() {
		trial = try()
	}
	lately := now.Add(-answeredLately).UnixNano()
	if trial == FailedToo && max(c.answered.Load(), b.circuit(model, other, now).answered.Load()) <= lately {
		trial = AnsweredElsewhere // as far as anybody can tell, it is the model
	}
	return c.excuse(trial)
}

// circuit returns the circuit of a version, a new one if it has none.
func (b *Breaker) circuit(model string, version int64, now time.Time) *circuit {
	if c := (*b.circuits.Load())[versionID{model, version}]; c != nil {
		return c
	}
	return b.add(versionID{model, version}, now)
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

// tell tells onChange of changes. A State without a model is none. No lock is held.
func (b *Breaker) tell(changes ...State) {
	for _, s := range changes {
		if s.Model != "" {
			b.onChange(s)
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
