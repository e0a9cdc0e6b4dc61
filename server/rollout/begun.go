package rollout

import "time"

// beginning is an episode's first request, which came to a version at some moment.
type beginning struct {
	version version
	at      time.Time
}

// Begun counts an episode whose first request came to a version at some moment. It costs next to nothing for versions
// without a running rollout, and does not wait for a look at the others.
func (m *Manager) Begun(model string, number int64, at time.Time) {
	v := version{model, number}
	if (*m.counters.Load())[v] == nil {
		return
	}
	m.begunMu.Lock()
	defer m.begunMu.Unlock()
	m.begun = append(m.begun, beginning{v, at})
}

// countBegunLocked counts the episodes that began since it was called last.
func (m *Manager) countBegunLocked() {
	m.begunMu.Lock()
	begun := m.begun
	m.begun = nil
	m.begunMu.Unlock()
	for _, b := range begun {
		if s, side := m.runs[b.version.model].stratum(b.version.number, b.at); s != nil {
			s.episodes[side].begun++
		}
	}
}
