package quarantine

import (
	"context"
	"errors"
	"slices"
	"time"
)

// Retry is the run of a request in quarantine. Of equal requests there is one at a time. It goes on when its callers
// have left: their limits seldom leave the time to prove that it hangs, and some not the time to start a process. A
// request that is never proven would end the process each time that it is sent.
type Retry struct {
	among   *Requests
	of      Origin
	inputs  digest
	stop    context.CancelCauseFunc
	endless func() bool

	callers int // guarded by Requests.mu; how many wait for it
	ended   chan struct{}
	err     error // how it ended; set before ended is closed
}

var errLeft = errors.New("nobody waits for the run any more")

// Outcome is how a retry ended.
type Outcome uint8

// The outcomes of retries.
const (
	Answered  Outcome = iota
	Failed            // by the request's fault, but the process goes on
	Crashed           // the process ended, or the run hung
	Undecided         // it shows nothing of the request
)

// String returns answered, failed, crashed or undecided.
func (o Outcome) String() string { return [...]string{"answered", "failed", "crashed", "undecided"}[o] }

// Ended is closed when the retry has ended.
func (t *Retry) Ended() <-chan struct{} { return t.ended }

// Err returns the error of a retry that has ended.
func (t *Retry) Err() error { return t.err }

// Leave notes that a caller does not wait any more. If nobody does, and too many retries go on so, the run is stopped;
// or at once if nothing else would end it.
func (t *Retry) Leave() {
	k := t.among
	k.mu.Lock()
	defer k.mu.Unlock()
	t.callers--
	if t.callers > 0 || k.of[t.of] == nil || k.of[t.of].retries[t.inputs] != t {
		return
	}
	if k.unwaited++; t.endless() || k.unwaited > maxUnwaited {
		t.stop(errLeft)
	}
}

// End notes how the retry ended. crowded is called if so many requests ended the process lately that the version is to
// be taken out. Those who wait are told then.
func (t *Retry) End(outcome Outcome, err error, crowded func()) {
	t.stop(nil)
	if t.among.end(t, outcome, err) {
		crowded()
	}
	t.err = err
	close(t.ended)
}

func (k *Requests) end(t *Retry, outcome Outcome, err error) (enough bool) {
	now := time.Now()
	k.mu.Lock()
	defer k.mu.Unlock()
	v := k.of[t.of]
	if t.callers == 0 {
		k.unwaited--
	}
	delete(v.retries, t.inputs)
	delete(v.suspects, t.inputs)
	switch outcome {
	case Answered, Failed:
	case Undecided:
		k.rememberLocked(v, v.suspects, t.inputs, memory{err, now})
	case Crashed:
		k.rememberLocked(v, v.poison, t.inputs, memory{err, now})
		v.crashes = slices.DeleteFunc(append(v.crashes, now), func(at time.Time) bool { return now.Sub(at) > CrashTime })
		if enough = len(v.crashes) >= MaxCrashes; enough {
			v.crashes = nil
		}
	}
	k.tidyLocked(t.of)
	return enough
}
