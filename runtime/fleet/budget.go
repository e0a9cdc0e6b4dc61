package fleet

import (
	"cmp"
	"math"
	"slices"
	"sync"

	"github.com/weftserve/weft/runtime/catalog"
)

// Budget keeps count of the memory that resident versions take, by estimate. It is safe for concurrent use; its lock is
// a leaf.
type Budget struct {
	mu    sync.Mutex
	limit int64                 // guarded by mu; bytes; 0: no bound
	held  map[*Holding]struct{} // guarded by mu
	inUse int64                 // guarded by mu; the sum of held
}

// Holding is the memory of one replica of a version, as Take has reserved it. Immutable.
type Holding struct {
	model   string
	version int64
	bytes   int64
}

// NewBudget returns a budget of so many bytes; 0: no bound.
func NewBudget(bytes int64) *Budget { return &Budget{limit: bytes, held: map[*Holding]struct{}{}} }

// SetLimit changes how many bytes there are. Held bytes stay held.
func (b *Budget) SetLimit(bytes int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.limit = bytes
}

// InUse returns how many bytes are held, and how many there are; 0: no bound.
func (b *Budget) InUse() (inUse, limit int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.inUse, b.limit
}

// Fits returns a *catalog.MemoryError if there are not so many bytes for a version now.
func (b *Budget) Fits(model string, version, bytes int64) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.fitsLocked(model, version, bytes)
}

// fitsLocked lists the holdings in its error, the largest first: these are what an operator could unload. The caller
// holds mu.
func (b *Budget) fitsLocked(model string, version, bytes int64) error {
	if b.limit == 0 || b.inUse+bytes <= b.limit {
		return nil
	}
	e := &catalog.MemoryError{Model: model, Version: version, Need: bytes, InUse: b.inUse, Budget: b.limit}
	for h := range b.held {
		e.Residents = append(e.Residents, catalog.Resident{Model: h.model, Version: h.version, Bytes: h.bytes})
	}
	slices.SortFunc(e.Residents, func(a, b catalog.Resident) int {
		return cmp.Or(cmp.Compare(b.Bytes, a.Bytes), cmp.Compare(a.Model, b.Model), cmp.Compare(a.Version, b.Version))
	})
	return e
}

// Take reserves bytes for a version that is to be loaded, for Give to give back. The error is a *catalog.MemoryError.
func (b *Budget) Take(model string, version, bytes int64) (*Holding, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if err := b.fitsLocked(model, version, bytes); err != nil {
		return nil, err
	}
	h := &Holding{model, version, bytes}
	b.held[h] = struct{}{}
	b.inUse += bytes
	return h, nil
}

// Free returns how many bytes could be taken now.
func (b *Budget) Free() int64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.limit == 0 {
		return math.MaxInt64
	}
	return b.limit - b.inUse
}

// Give releases what Take has reserved. It may be called again for the same holding.
func (b *Budget) Give(h *Holding) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if _, is := b.held[h]; !is { // it was given back already, since a device was lost
		return
	}
	delete(b.held, h)
	b.inUse -= h.bytes
}
