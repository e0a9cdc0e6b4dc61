package execution

import (
	"sync"

	"github.com/weftserve/weft/runtime/tensor"
)

// buffers is the memory of one execution. It grows to what the largest execution needed.
type buffers struct {
	batch *tensor.Batch
	// parts, ranges and shape are room for the lists that an execution makes; empty between executions.
	parts  []part
	ranges []tensor.RowRange
	shape  tensor.Shape
	watch  watch
}

// pool keeps a session's buffers between executions, at most as many as the device has lanes. Safe for concurrent use.
type pool struct {
	inputs, outputs, most int
	memory                tensor.Allocator // of batches; nil: the system's

	mu     sync.Mutex
	free   []*buffers // guarded by mu
	closed bool       // guarded by mu
}

// init sets a pool up for batches of a signature, before the first take.
func (p *pool) init(s *tensor.Signature, memory tensor.Allocator) {
	p.inputs, p.outputs, p.memory = s.MostInputs(), len(s.Outputs), memory
}

// take returns buffers that the caller owns until give.
func (p *pool) take() *buffers {
	p.mu.Lock()
	defer p.mu.Unlock()
	if n := len(p.free); n > 0 {
		b := p.free[n-1]
		p.free = p.free[:n-1]
		return b
	}
	return &buffers{batch: tensor.NewBatch(p.inputs, p.outputs, p.memory)}
}

// give takes buffers back. It clears every reference to requests, which would otherwise be kept from the garbage
// collector until the next execution.
func (p *pool) give(b *buffers) {
	clear(b.parts[:cap(b.parts)])
	clear(b.ranges[:cap(b.ranges)])
	b.parts, b.ranges, b.shape = b.parts[:0], b.ranges[:0], b.shape[:0]
	p.mu.Lock()
	defer p.mu.Unlock()
	// Before Keep, and in quarantine, most is 0 and nothing is kept.
	if p.closed || len(p.free) >= p.most {
		b.batch.Free()
		return
	}
	p.free = append(p.free, b)
}

// close frees the memory. Buffers that are still in use are freed when they are given back.
func (p *pool) close() {
	p.mu.Lock()
	p.closed = true
	p.mu.Unlock()
	p.trim()
}

// trim frees the memory that is not in use. Later executions allocate memory of their own size.
func (p *pool) trim() {
	p.mu.Lock()
	free := p.free
	p.free = nil
	p.mu.Unlock()
	for _, b := range free {
		b.batch.Free()
	}
}
