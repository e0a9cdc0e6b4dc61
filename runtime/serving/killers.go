package serving

import (
	"crypto/sha256"
	"encoding/binary"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weftserve/weft/runtime/catalog"
	"github.com/weftserve/weft/runtime/tensor"
)

// killers are the requests of a version that ended the engine's process twice, the second time by themselves. None is
// run a third time. Safe for concurrent use.
type killers struct {
	some atomic.Bool // any are known: until then no request is looked up

	mu    sync.Mutex
	known map[[sha256.Size]byte]error // guarded by mu, as is the rest: by digest, how the process ended
	order [][sha256.Size]byte         // the oldest first
	times []time.Time                 // of the latest kills

	proven uint64    // kills
	last   time.Time // of the latest kill
	how    string    // the process ended then
}

const (
	// maxKillers is how many requests a version remembers.
	maxKillers = 256
	// A version that is killed maxKills times within killTime is taken out.
	maxKills = 3
	killTime = time.Minute
)

// find returns how a request with these inputs ended the process before; nil: it is not known to have done so.
func (k *killers) find(inputs []tensor.Tensor) error {
	if !k.some.Load() {
		return nil
	}
	d := digest(inputs)
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.known[d]
}

// add remembers a request, and reports whether the version is to be taken out.
func (k *killers) add(inputs []tensor.Tensor, cause error) (enough bool) {
	d, now := digest(inputs), time.Now()
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.known == nil {
		k.known = map[[sha256.Size]byte]error{}
	}
	if k.known[d] == nil {
		k.order = append(k.order, d)
	}
	k.known[d] = cause
	k.proven++
	k.last, k.how = now, cause.Error()
	if len(k.order) > maxKillers {
		delete(k.known, k.order[0])
		k.order = k.order[1:]
	}
	k.some.Store(true)
	k.times = slices.DeleteFunc(append(k.times, now), func(t time.Time) bool { return now.Sub(t) > killTime })
	if len(k.times) < maxKills {
		return false
	}
	k.times = nil
	return true
}

// counts returns the crashes that were proven.
func (k *killers) counts() catalog.Crashes {
	k.mu.Lock()
	defer k.mu.Unlock()
	return catalog.Crashes{Proven: k.proven, ProvenAt: k.last, Proof: k.how, Remembered: len(k.known)}
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
