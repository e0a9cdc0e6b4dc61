// Package quarantine decides what happens to requests whose runs ended the engine's process, or hung.
//
// Each request of such a batch is suspect, and is retried in quarantine, where nothing else runs. One that ends that
// process too is poison, and is not run again: not by its version, nor by one that is loaded from the same files later.
// So it ends one process when nothing is known of it, and one in quarantine. A request whose retry showed nothing stays
// suspect, and is run in quarantine only. An innocent one is never refused.
package quarantine

import (
	"cmp"
	"context"
	"crypto/sha256"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weftserve/weft/runtime/tensor"
)

// MaxCrashes poison requests within CrashTime take their version out.
const (
	MaxCrashes = 3
	CrashTime  = time.Minute
)

const (
	// maxRemembered is how many poison requests of a version are remembered, and how many suspect ones; maxVersions of how
	// many versions: the ones that had one lately.
	maxRemembered = 256
	maxVersions   = 64
	// suspectTime is how long a request is suspect: while any is, each request of the version is looked up.
	suspectTime = 10 * time.Minute
	// maxUnwaited is how many retries go on at once that nobody waits for. Each holds a copy of its inputs.
	maxUnwaited = 64
)

// Origin is what a version was loaded from.
type Origin struct {
	Model   string
	Version int64
	Files   string // a digest, or whatever else tells them from others
}

// Requests is what is known of requests to all versions. The zero value knows nothing. Safe for concurrent use.
type Requests struct {
	some atomic.Bool // anything is known: else no request is looked up

	mu       sync.Mutex
	of       map[Origin]*version // guarded by mu, as is all that follows
	unwaited int                 // retries that nobody waits for
}

// version is what is known of the requests to a version. Requests.mu guards it.
type version struct {
	poison, suspects map[digest]memory
	retries          map[digest]*Retry
	crashes          []time.Time // the latest
	last             time.Time   // when a poison or suspect request was added
}

// memory is how a poison request ended the process, or why the retry of a suspect one showed nothing.
type memory struct {
	cause error
	at    time.Time
}

// Known is what is known of a request. At most one field is not zero.
type Known struct {
	Poison  error  // how it ended the process: it is not to be run
	Suspect error  // why its retry showed nothing: it is to be run in quarantine only
	Retry   *Retry // that is under way; Leave must follow
}

// Find returns what is known of a request with these inputs.
func (k *Requests) Find(o Origin, inputs []tensor.Tensor) (known Known) {
	if !k.some.Load() {
		return known
	}
	k.mu.Lock()
	if v := k.of[o]; v != nil && time.Since(v.last) >= suspectTime {
		clear(v.suspects)
		k.tidyLocked(o)
	}
	_, some := k.of[o]
	k.mu.Unlock()
	if !some {
		return known
	}
	d := digestOf(inputs)
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.findLocked(o, d)
}

func (k *Requests) findLocked(o Origin, d digest) (known Known) {
	v := k.of[o]
	if v == nil {
		return known
	}
	suspect := v.suspects[d]
	switch t := v.retries[d]; {
	case v.poison[d].cause != nil:
		known.Poison = v.poison[d].cause
	case t != nil:
		if t.callers == 0 {
			k.unwaited--
		}
		t.callers++
		known.Retry = t
	case time.Since(suspect.at) < suspectTime:
		known.Suspect = suspect.cause
	}
	return known
}

// Begin begins a retry of a request, and reports that; unless the request is poison, or is being retried already. stop
// ends the run, and endless reports whether nothing else would: it takes no lock. Leave must follow, and End if it has
// begun.
func (k *Requests) Begin(o Origin, inputs []tensor.Tensor, stop context.CancelCauseFunc, endless func() bool,
) (known Known, begins bool) {
	d := digestOf(inputs)
	k.mu.Lock()
	defer k.mu.Unlock()
	if known = k.findLocked(o, d); known.Poison != nil || known.Retry != nil {
		return known, false
	}
	if k.of == nil {
		k.of = map[Origin]*version{}
	}
	if k.of[o] == nil {
		k.of[o] = &version{
			poison: map[digest]memory{}, suspects: map[digest]memory{}, retries: map[digest]*Retry{},
		}
	}
	t := &Retry{among: k, of: o, inputs: d, stop: stop, endless: endless, callers: 1, ended: make(chan struct{})}
	k.of[o].retries[d] = t
	k.some.Store(true)
	return Known{Retry: t}, true
}

// Review stops the retries of requests to a version that nobody waits for and that nothing else would end by now.
func (k *Requests) Review(o Origin) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if v := k.of[o]; v != nil {
		for _, t := range v.retries {
			if t.callers == 0 && t.endless() {
				t.stop(errLeft)
			}
		}
	}
}

// Poison returns how many poison requests to a version are remembered.
func (k *Requests) Poison(o Origin) int {
	k.mu.Lock()
	defer k.mu.Unlock()
	if v := k.of[o]; v != nil {
		return len(v.poison)
	}
	return 0
}

// rememberLocked adds to the poison or the suspect requests of a version, and forgets the oldest if there are too many.
// If too many versions have any, the one whose latest is the oldest loses all, first if it has only suspects.
func (k *Requests) rememberLocked(v *version, among map[digest]memory, d digest, m memory) {
	if v.last.IsZero() {
		k.makeRoomLocked()
	}
	if len(among) == maxRemembered {
		delete(among, slices.MinFunc(slices.Collect(maps.Keys(among)),
			func(a, b digest) int { return among[a].at.Compare(among[b].at) }))
	}
	among[d], v.last = m, m.at
}

func (k *Requests) makeRoomLocked() {
	some := slices.DeleteFunc(slices.Collect(maps.Keys(k.of)), func(o Origin) bool { return k.of[o].last.IsZero() })
	if len(some) < maxVersions {
		return
	}
	oldest := slices.MinFunc(some, func(a, b Origin) int {
		x, y := k.of[a], k.of[b]
		return cmp.Or(cmp.Compare(min(1, len(x.poison)), min(1, len(y.poison))), x.last.Compare(y.last))
	})
	v := k.of[oldest]
	clear(v.poison)
	clear(v.suspects)
	v.crashes, v.last = nil, time.Time{}
	k.tidyLocked(oldest)
}

// tidyLocked forgets a version that nothing is known about.
func (k *Requests) tidyLocked(o Origin) {
	if v := k.of[o]; len(v.poison)+len(v.suspects)+len(v.retries) == 0 {
		delete(k.of, o)
	}
	k.some.Store(len(k.of) > 0)
}

// digest tells inputs from others.
type digest [sha256.Size]byte

// digestOf returns the digest of the types, shapes and data of inputs.
func digestOf(inputs []tensor.Tensor) (d digest) {
	h := sha256.New()
	for i := range inputs {
		_, _ = fmt.Fprintln(h, inputs[i].DType, inputs[i].Shape, inputs[i].Size()) // a hash has no errors
		for run := range inputs[i].Runs() {
			h.Write(run)
		}
	}
	h.Sum(d[:0])
	return d
}
