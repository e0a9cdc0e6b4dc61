package schedtest

import (
	"slices"
	"sync"

	"github.com/weftserve/weft/sharedsched"
)

// Observer is a shell.Observer that remembers the executions. Its methods are safe for concurrent use.
type Observer struct {
	mu      sync.Mutex
	batches []sharedsched.BatchEvent // guarded by mu
}

// BatchDone implements shell.Observer.
func (o *Observer) BatchDone(e sharedsched.BatchEvent) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.batches = append(o.batches, e)
}

// Batches returns the executions so far, the oldest first.
func (o *Observer) Batches() []sharedsched.BatchEvent {
	o.mu.Lock()
	defer o.mu.Unlock()
	return slices.Clone(o.batches)
}
