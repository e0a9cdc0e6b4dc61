package serving

import (
	"sync"
	"time"

	"github.com/weftserve/weft/runtime/catalog"
)

// loading is how far the load of a version is, for progress and for a server that starts. Safe for concurrent use.
type loading struct {
	mu  sync.Mutex
	now catalog.LoadProgress // guarded by mu
	// guarded by mu: when its rows began to be proven
	proving time.Time
}

// slowProof is how long a server that starts waits for the proof of one version before it takes requests for others.
// Most proofs take less.
const slowProof = 3 * time.Second

func (l *loading) begin() { l.now.Since = time.Now() } // before anybody else knows it

// enter notes that the next stage begins.
func (l *loading) enter(s catalog.Stage) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.now.Stage, l.now.Done, l.now.Of = s, 0, 0
	if s == catalog.StageProving && l.proving.IsZero() {
		l.proving = time.Now()
	}
}

// count notes that done of so many parts of the stage are done. The unit depends on the stage: bytes, or runs.
func (l *loading) count(done, of int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.now.Done, l.now.Of = done, of
}

// Loading returns how far the load of the version is, or that of its latest replica. It waits for nothing that a load
// does.
func (v *Version) Loading() catalog.LoadProgress {
	v.loading.mu.Lock()
	defer v.loading.mu.Unlock()
	now := v.loading.now
	now.Slow = !v.loading.proving.IsZero() && time.Since(v.loading.proving) >= slowProof
	return now
}
