package serving

import (
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
// time: not by its version, nor by one that is loaded from the same files later. Those that ended it once are on trial.
// Safe for concurrent use.
type killers struct {
	some atomic.Bool // any are known or on trial: else no request is looked up

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

// killersOf are the killers of a version. All is guarded by killers.mu.
type killersOf struct {
	known map[[sha256.Size]byte]error // by digest, how the process ended
	order [][sha256.Size]byte         // the oldest first
	times []time.Time                 // of the latest kills
	last  time.Time                   // of all of them
}

const (
	// maxKillers is how many requests of a version are remembered, and maxKilled of how many versions: those that were
	// killed lately.
	maxKillers = 256
	maxKilled  = 64
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

// find returns how a request with these inputs ended the process before, or its trial, which await must follow.
func (v *Version) find(inputs []tensor.Tensor) (t *trial, cause error) {
	k := &v.shared.killers
	if !k.some.Load() {
		return nil, nil
	}
	o := v.origin()
	k.mu.Lock()
	none := k.of[o] == nil && k.trials[o] == nil
	k.mu.Unlock()
	if none {
		return nil, nil
	}
	d := digest(inputs)
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.findLocked(o, d)
}

func (k *killers) findLocked(o origin, d [sha256.Size]byte) (t *trial, cause error) {
	if mine := k.of[o]; mine != nil && mine.known[d] != nil {
		return nil, mine.known[d]
	}
	if t = k.trials[o][d]; t != nil {
		if t.callers == 0 {
			k.left--
		}
		t.callers++
	}
	return t, nil
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
	k.some.Store(len(k.of) > 0 || len(k.trials) > 0)
}

// kill remembers a request that was not known to end the process, and reports whether the version is to be taken out.
func (v *Version) kill(d [sha256.Size]byte, cause error) (enough bool) {
	k, now := &v.shared.killers, time.Now()
	k.mu.Lock()
	defer k.mu.Unlock()
	v.crashes.Proven++
	v.crashes.ProvenAt, v.crashes.Proof = now, cause.Error()
	mine := k.ofLocked(v.origin())
	mine.known[d], mine.order = cause, append(mine.order, d)
	if len(mine.order) > maxKillers {
		delete(mine.known, mine.order[0])
		mine.order = mine.order[1:]
	}
	k.some.Store(true)
	mine.last = now
	mine.times = slices.DeleteFunc(append(mine.times, now),
		func(t time.Time) bool { return now.Sub(t) > killTime })
	if len(mine.times) < maxKills {
		return false
	}
	mine.times = nil
	return true
}

// ofLocked returns the killers of a version, which makes the version that was killed the longest ago be forgotten if
// there are too many.
func (k *killers) ofLocked(o origin) *killersOf {
	if mine := k.of[o]; mine != nil {
		return mine
	}
	if len(k.of) == maxKilled {
		oldest := slices.MinFunc(slices.Collect(maps.Keys(k.of)),
			func(a, b origin) int { return k.of[a].last.Compare(k.of[b].last) })
		delete(k.of, oldest)
	}
	if k.of == nil {
		k.of = map[origin]*killersOf{}
	}
	k.of[o] = &killersOf{known: map[[sha256.Size]byte]error{}}
	return k.of[o]
}

// provenCrashes returns the crashes that were proven since the version was loaded, and how many requests are known.
func (v *Version) provenCrashes() catalog.Crashes {
	k := &v.shared.killers
	k.mu.Lock()
	defer k.mu.Unlock()
	c := v.crashes
	if mine := k.of[v.origin()]; mine != nil {
		c.Remembered = len(mine.known)
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
		put(int64(len(inputs[i].Data)))
		h.Write(inputs[i].Data)
	}
	h.Sum(d[:0])
	return d
}
