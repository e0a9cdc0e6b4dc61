package host

import (
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weftserve/weft/runtime/residency"
	"github.com/weftserve/weft/runtime/tensor"
	"github.com/weftserve/weft/sharedsched"
)

// version is what is resident of a model under a number, on one device or several.
type version struct {
	id     int64 // of the resident that it is
	model  string
	number int64
	from   candidate   // what it was loaded from, with the manifest that the proof was made with
	ready  atomic.Bool // takes requests

	// demoted is why it is out of batching although it was found fit for it; nil while it is not. It is written with tuning held.
	demoted atomic.Pointer[string]
	tuning  sync.Mutex                        // held while the settings and the plan of a replica change
	tuned   map[*replica]sharedsched.Settings // guarded by tuning: of those in the scheduler, what they are to have if it is not demoted

	proofs atomic.Int64 // how often it was proven anew while it served

	audit    audit
	replicas atomic.Pointer[[]*replica] // replaced, never changed, with Host.mu held
	sessions atomic.Int32               // that are open

	wait *residency.Wait // for a better device, as it was placed; of no use once it is published

	graphs graphCounts // guarded by Host.mu once the version is published
}

// newVersion returns what is to be loaded, by the number that residency gave it.
func newVersion(c candidate, id int64) *version {
	v := &version{id: id, model: c.model, number: c.version.Number, from: c}
	v.audit.first, v.audit.rng = auditFirst, rand.New(rand.NewPCG(2, uint64(v.number)))
	return v
}

// plan is how a version's requests become executions. Immutable.
type plan struct {
	signature *tensor.Signature
	batched   bool
	// trims are the output dimensions that are cut back to the length of an input; none where inputs are not padded.
	trims []trim
	// allowed are the sizes that an execution may have, ascending; empty: any. most is the largest.
	allowed []int
	most    int
	// budget is the device time that one execution may take; 0: no bound.
	budget time.Duration
	// shapeKey is the length of Signature.ShapeKey, which is the same for every request.
	shapeKey int
	watch    watch
	// values are those of the inputs without rows, and the sizes of open dimensions, that are proven, or may be; nil where none has to be.
	values *values
	// before is the plan of a version that was in batching until it was demoted; nil for others.
	before *plan
}

func newPlan(s *tensor.Signature, v verdict, budget time.Duration) *plan {
	p := &plan{signature: s, batched: v.batched, allowed: v.allowed, most: v.most, budget: budget, values: newValues(s, v)}
	for _, in := range s.Inputs {
		for d, size := range in.Shape {
			if size == tensor.Unknown && d != in.BatchDim {
				p.shapeKey += 8
			}
		}
	}
	return p
}

// padded returns the size of an execution of so many rows.
func (p *plan) padded(rows int) int {
	if i, _ := slices.BinarySearch(p.allowed, rows); p.batched && i < len(p.allowed) {
		return p.allowed[i]
	}
	return rows
}

// keys returns the key under which requests with these inputs may share an execution, and its part that decides the cost. A
// model whose only open dimension is the batch has empty keys, which take no memory.
func (p *plan) keys(inputs []tensor.Tensor) (key, shapeKey string) {
	var room [128]byte
	if !p.batched {
		// Requests run one by one, whatever their values: one queue per shape is enough.
		shapeKey = string(p.signature.ShapeKey(room[:0], inputs))
		return shapeKey, shapeKey
	}
	key = string(p.signature.Key(room[:0], inputs))
	return key, key[:p.shapeKey]
}
