package serving

import (
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weftserve/weft/runtime/catalog"
	"github.com/weftserve/weft/runtime/tensor"
)

// killers are the requests that ended the engine's process twice, the second time by themselves. None is run a third
// time: not by its version, nor by one that is loaded from the same files later. Those that ended it once are on trial,
// and suspects after a trial that showed nothing. Safe for concurrent use.
type killers struct {
	some atomic.Bool // any are known, suspects or on trial: else no request is looked up

	mu     sync.Mutex
	of     map[origin]*killersOf                   // guarded by mu
	trials map[origin]map[[sha256.Size]byte]*trial // guarded by mu; by digest, those that are under way
	left   int                                     // guarded by mu; how many of them nobody waits for
}

// origin is what a version was loaded from.
type origin struct {
	model  string
	number int64
	digest string
}

// killersOf are the killers and the suspects of a version. All is guarded by killers.mu.
type killersOf struct {
	known    latest      // with how the process ended
	suspects latest      // with why their trials showed nothing
	times    []time.Time // of the latest kills
	last     time.Time   // when it was added to
}

const (
	// maxKillers is how many requests of a version are remembered, as killers and as suspects, and maxKilled of how many
	// versions: those that had one lately.
	maxKillers = 256
	maxKilled  = 64
	// suspectTime is how long a suspect is remembered: while there are any, each request of the version is looked up.
	suspectTime = 10 * time.Minute
	// A version that is killed maxKills times within killTime is taken out.
	maxKills = 3
	killTime = time.Minute
)

// origin returns what the version was loaded from. The digest is that of its copy; where it has none, the files are
// told apart as they were listed.
func (v *Version) origin() origin {
	o := origin{v.Model, v.Number, v.From.Version.Fingerprint}
	if d := v.copied.digest.Load(); d != nil {
		o.digest = *d
	}
	return o
}

// found is what is known of a request. At most one is not zero.
type found struct {
	trial   *trial // that is under way; await must follow
	killer  error  // how it ended the process
	suspect error  // why its trial showed nothing: it is only to be run where nothing else does
}

// find returns what is known of a request with these inputs.
func (v *Version) find(inputs []tensor.Tensor) (f found) {
	k := &v.shared.killers
	if !k.some.Load() {
		return f
	}
	o := v.origin()
	k.mu.Lock()
	k.expireLocked(o, time.Now())
	none := k.of[o] == nil && k.trials[o] == nil
	k.mu.Unlock()
	if none {
		return f
	}
	d := digest(inputs)
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.findLocked(o, d)
}

func (k *killers) findLocked(o origin, d [sha256.Size]byte) (f found) {
	if mine := k.of[o]; mine != nil {
		f.killer, f.suspect = mine.known.of[d].cause, mine.suspects.of[d].cause
	}
	if f.killer != nil {
		return f
	}
	if f.trial = k.trials[o][d]; f.trial != nil {
		f.suspect = nil
		if f.trial.callers == 0 {
			k.left--
		}
		f.trial.callers++
	}
	return f
}

func (k *killers) addLocked(t *trial) {
	if k.trials == nil {
		k.trials = map[origin]map[[sha256.Size]byte]*trial{}
	}
	if k.trials[t.of] == nil {
		k.trials[t.of] = map[[sha256.Size]byte]*trial{}
	}
	k.trials[t.of][t.digest] = t
	k.some.Store(true)
}

func (k *killers) removeLocked(t *trial) {
	if t.callers == 0 {
		k.left--
	}
	delete(k.trials[t.of], t.digest)
	if len(k.trials[t.of]) == 0 {
		delete(k.trials, t.of)
	}
	k.suspectLocked(t)
	k.some.Store(len(k.of) > 0 || len(k.trials) > 0)
}

// suspectLocked remembers a request whose trial showed nothing, and forgets one whose trial did.
func (k *killers) suspectLocked(t *trial) {
	if undecided(t.err) {
		k.ofLocked(t.of).suspects.add(t.digest, t.err)
	} else if mine := k.of[t.of]; mine != nil {
		mine.suspects.remove(t.digest)
		k.tidyLocked(t.of)
	}
}

// expireLocked forgets the suspects of a version that have been ones for long.
func (k *killers) expireLocked(o origin, now time.Time) {
	mine := k.of[o]
	if mine == nil {
		return
	}
	for s := &mine.suspects; len(s.order) > 0 && now.Sub(s.of[s.order[0]].at) >= suspectTime; {
		s.remove(s.order[0])
	}
	k.tidyLocked(o)
	k.some.Store(len(k.of) > 0 || len(k.trials) > 0)
}

// tidyLocked forgets a version of which no request is remembered.
func (k *killers) tidyLocked(o origin) {
	if mine := k.of[o]; len(mine.known.order)+len(mine.suspects.order) == 0 {
		delete(k.of, o)
	}
}

// kill remembers a request that was not known to end the process, and reports whether the version is to be taken out.
func (v *Version) kill(d [sha256.Size]byte, cause error) (enough bool) {
	k, now := &v.shared.killers, time.Now()
	k.mu.Lock()
	defer k.mu.Unlock()
	v.crashes.Proven++
	v.crashes.ProvenAt, v.crashes.Proof = now, cause.Error()
	mine := k.ofLocked(v.origin())
	mine.known.add(d, cause)
	k.some.Store(true)
	mine.times = slices.DeleteFunc(append(mine.times, now),
		func(t time.Time) bool { return now.Sub(t) > killTime })
	if len(mine.times) < maxKills {
		return false
	}
	mine.times = nil
	return true
}

// ofLocked returns the killers of a version, to be added to, which makes the version be forgotten that was added to the
// longest ago if there are too many, first of those that have only suspects.
func (k *killers) ofLocked(o origin) *killersOf {
	if mine := k.of[o]; mine != nil {
		mine.last = time.Now()
		return mine
	}
	if len(k.of) == maxKilled {
		oldest := slices.MinFunc(slices.Collect(maps.Keys(k.of)),
			func(a, b origin) int {
				return cmp.Or(cmp.Compare(min(1, len(k.of[a].known.order)), min(1, len(k.of[b].known.order))),
					k.of[a].last.Compare(k.of[b].last))
			})
		delete(k.of, oldest)
	}
	if k.of == nil {
		k.of = map[origin]*killersOf{}
	}
	k.of[o] = &killersOf{last: time.Now()}
	return k.of[o]
}

// latest are errors of the latest requests that had one, by digest. The zero value has none.
type latest struct {
	of    map[[sha256.Size]byte]remembered
	order [][sha256.Size]byte // the oldest first
}

type remembered struct {
	cause error
	at    time.Time
}

// add adds a request, or makes it the latest, and forgets the oldest if there are too many.
func (l *latest) add(d [sha256.Size]byte, cause error) {
	l.remove(d)
	if len(l.order) == maxKillers {
		l.remove(l.order[0])
	}
	if l.of == nil {
		l.of = map[[sha256.Size]byte]remembered{}
	}
	l.of[d], l.order = remembered{cause, time.Now()}, append(l.order, d)
}

func (l *latest) remove(d [sha256.Size]byte) {
	if _, is := l.of[d]; is {
		delete(l.of, d)
		l.order = slices.DeleteFunc(l.order, func(other [sha256.Size]byte) bool { return other == d })
	}
}

// provenCrashes returns the crashes that were proven since the version was loaded, and how many requests are known.
func (v *Version) provenCrashes() catalog.Crashes {
	k := &v.shared.killers
	k.mu.Lock()
	defer k.mu.Unlock()
	c := v.crashes
	if mine := k.of[v.origin()]; mine != nil {
		c.Remembered = len(mine.known.order)
	}
	return c
}

func digest(inputs []tensor.Tensor) (d [sha256.Size]byte) {
	h := sha256.New()
	var word [8]byte
	put := func(v int64) {
		binary.LittleEndian.PutUint64(word[:], uint64(v))
		h.Write(word[:])
	}
	for i := range inputs {
		put(int64(inputs[i].DType))
		put(int64(len(inputs[i].Shape)))
		for _, size := range inputs[i].Shape {
			put(size)
		}
		put(int64(inputs[i].Size()))
		for run := range inputs[i].Runs() {
			h.Write(run)
		}
	}
	h.Sum(d[:0])
	return d
}
