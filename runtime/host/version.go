package host

import (
	"slices"
	"sync/atomic"
	"time"

	"github.com/weftserve/weft/runtime/modelrepo"
	"github.com/weftserve/weft/runtime/tensor"
	"github.com/weftserve/weft/sharedsched"
)

// version is one resident version. Its fields are set before it is first added to the scheduler, except where they say so.
type version struct {
	model   string
	number  int64
	opened  Opened
	id      sharedsched.VersionID
	flow    flowKey
	buffers *pool
	plan    atomic.Pointer[plan] // keeps its signature once the version is ready
	ready   atomic.Bool          // takes requests

	// from is what it was loaded from, with the manifest that the proof was made with, and verdict what the proof said.
	from    candidate
	verdict verdict
	memory  *holding
	// settings is the manifest that it follows now. Guarded by Host.mu once it is published.
	settings *modelrepo.Manifest
	// seats counts the versions in the scheduler that use the session, the buffers and the memory: two while a version is moved.
	seats *atomic.Int32
}

// plan is how a version's requests become executions. Immutable.
type plan struct {
	signature *tensor.Signature
	batched   bool
	// trims are the output dimensions that are cut back to the length of an input; none where inputs are not padded.
	trims []trim
	// allowed are the sizes that an execution may have, ascending; empty: any.
	allowed []int
	// budget is the device time that one execution may take; 0: no bound.
	budget time.Duration
	// shapeKey is the length of Signature.ShapeKey, which is the same for every request.
	shapeKey int
}

func newPlan(s *tensor.Signature, v verdict, budget time.Duration) *plan {
	p := &plan{signature: s, batched: v.batched, allowed: v.allowed, budget: budget}
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
