package rollout

import (
	"sync"
	"time"
)

// beginnings are episodes that began since the last look. They wait here, because a request that begins one must not
// wait for a look.
type beginnings struct {
	mu  sync.Mutex
	all []beginning // guarded by mu
}

// beginning is an episode's first request, which came to a version at some moment.
type beginning struct {
	version version
	at      time.Time
}

func (b *beginnings) add(v version, at time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.all = append(b.all, beginning{v, at})
}

func (b *beginnings) take() []beginning {
	b.mu.Lock()
	defer b.mu.Unlock()
	all := b.all
	b.all = nil
	return all
}

// Begun counts an episode whose first request came to a version at some moment. It costs next to nothing for versions
// without a running rollout.
func (m *Manager) Begun(model string, number int64, at time.Time) {
	v := version{model, number}
	if (*m.counters.Load())[v] != nil {
		m.begun.add(v, at)
	}
}

// countBegunLocked counts the episodes that began since it was called last.
func (m *Manager) countBegunLocked() {
	for _, b := range m.begun.take() {
		if s, side := m.runs[b.version.model].stratum(b.version.number, b.at); s != nil {
			s.episodes[side].begun++
		}
	}
}
