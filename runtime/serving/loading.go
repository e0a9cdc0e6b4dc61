package serving

import (
	"sync"
	"time"

	"github.com/weftserve/weft/runtime/catalog"
)

// loading is how far the load of a version is. Safe for concurrent use.
type loading struct {
	mu  sync.Mutex
	now catalog.LoadProgress // guarded by mu
}

func (l *loading) begin() { l.now.Since = time.Now() } // before anybody else knows it

// enter notes that the next stage begins.
func (l *loading) enter(s catalog.Stage) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.now.Stage, l.now.Done, l.now.Of = s, 0, 0
}

// count notes how far the stage is.
func (l *loading) count(done, of int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.now.Done, l.now.Of = done, of
}

// Loading returns how far the load of the version is, or of its latest replica.
func (v *Version) Loading() catalog.LoadProgress {
	v.loading.mu.Lock()
	defer v.loading.mu.Unlock()
	return v.loading.now
}
