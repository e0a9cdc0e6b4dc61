package execution

import (
	lru "container/list"
	"slices"
	"sync"
	"time"

	"github.com/weftserve/weft/runtime/tensor"
)

// Bounds of the memory of a replica's values: how many there are, the bytes of one, and of all. A larger value is never
// proven, so that its requests run alone; one that was forgotten is proven again.
const (
	mostValues     = 256
	valueBytes     = 1 << 20
	allValuesBytes = 16 << 20
)

// Proofs of a replica's values take a part of the device time that its answered requests took, which is earned as those
// are answered. valueTime more is there at first, and can be saved up again. The proof that uses up the balance may
// take more, which is owed then.
const (
	valueTime = time.Second
	valuePart = 10 // one in so many
)

// Values are the parts of requests that must be equal within an execution: the values of inputs without rows, and the
// sizes of open dimensions. Together they are the key of a task. Until rows that came with a value were seen to answer
// alike alone and in batches, its requests run by themselves, as they came. Safe for concurrent use.
type Values struct {
	mu      sync.Mutex
	known   map[string]*lru.Element // guarded by mu: of *value
	recent  lru.List                // guarded by mu: the latest in front
	bytes   int                     // guarded by mu: of all
	proving bool                    // guarded by mu: one value is being proven, the most at once
	// guarded by mu: device time that proofs took and answered requests have not earned yet
	used time.Duration
}

// value is one key, and whether requests with it may share executions.
type value struct {
	key    string
	proven bool
	asked  int // how many requests came with it while it could have been proven
}

// NewValues returns the Values to be proven for a model whose made-up rows may be joined; nil where requests bring
// nothing but rows.
func NewValues(s *tensor.Signature) *Values {
	if !slices.ContainsFunc(s.Inputs, hasValues) {
		return nil
	}
	return &Values{known: map[string]*lru.Element{}}
}

// hasValues reports whether requests can bring values for an input that were not proven when the version was loaded. Of
// lengths that are padded, all buckets were.
func hasValues(s tensor.Spec) bool {
	if s.BatchDim == tensor.NoBatch {
		return true
	}
	for d, size := range s.Shape {
		padded := s.Variable != nil && s.Variable.Dim == d && len(s.Variable.Buckets) > 0
		if size == tensor.Unknown && d != s.BatchDim && !padded {
			return true
		}
	}
	return false
}

// Ask reports whether a value is proven, and if not, whether the caller must prove it now; Settle must then follow. A
// value is worth a proof when it comes the second time. Where a proof showed nothing, the next follows when the value
// has come twice as often. If may is false no proof is begun.
func (v *Values) Ask(key string, may bool) (proven, prove bool) {
	if len(key) > valueBytes {
		return false, false
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	e := v.known[key]
	if e == nil {
		v.remember(key)
		return false, false
	}
	v.recent.MoveToFront(e)
	known := e.Value.(*value)
	if known.proven {
		return true, false
	}
	// One proof at a time: each takes device time from requests.
	if !may || v.proving || v.used >= valueTime {
		return false, false
	}
	known.asked++
	// Only at powers of two: 2, 4, 8, ...
	if known.asked&(known.asked-1) != 0 {
		return false, false
	}
	v.proving = true
	return false, true
}

// remember adds a value that came for the first time, and forgets those asked for least recently beyond the bounds. The
// caller holds mu.
func (v *Values) remember(key string) {
	v.known[key] = v.recent.PushFront(&value{key: key, asked: 1})
	v.bytes += len(key)
	for v.recent.Len() > mostValues || v.bytes > allValuesBytes {
		last := v.recent.Remove(v.recent.Back()).(*value)
		delete(v.known, last.key)
		v.bytes -= len(last.key)
	}
}

// Earn adds the device time of an answered request. Proofs may use one valuePart of it.
func (v *Values) Earn(took time.Duration) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.used = max(0, v.used-took/valuePart)
}

// Settle ends the proof of a value, which took so much device time. The value may have been forgotten meanwhile.
func (v *Values) Settle(key string, proven bool, took time.Duration) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.proving = false
	v.used += took
	if e := v.known[key]; e != nil {
		e.Value.(*value).proven = proven
	}
}
