package schedtest

import (
	"slices"
	"sync"

	"github.com/weftserve/weft/sharedsched"
)

// Observer is a sharedsched.Observer that remembers everything it heard. Its methods are safe for concurrent use.
type Observer struct {
	mu      sync.Mutex
	batches []sharedsched.BatchEvent // guarded by mu
	refused []error                  // guarded by mu
}

// BatchDone implements sharedsched.Observer.
func (o *Observer) BatchDone(e sharedsched.BatchEvent) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.batches = append(o.batches, e)
}

// TaskRefused implements sharedsched.Observer.
func (o *Observer) TaskRefused(_ sharedsched.VersionID, err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.refused = append(o.refused, err)
}

// Batches returns the executions so far, the oldest first.
func (o *Observer) Batches() []sharedsched.BatchEvent {
	o.mu.Lock()
	defer o.mu.Unlock()
	return slices.Clone(o.batches)
}

// Refused returns what was refused and dropped so far, the oldest first.
func (o *Observer) Refused() []error {
	o.mu.Lock()
	defer o.mu.Unlock()
	return slices.Clone(o.refused)
}
