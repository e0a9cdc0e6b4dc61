package rollout

import (
	"cmp"
	"slices"
)

// Outcome sums up one outcome of one version over the window of its latest episodes.
type Outcome struct {
	Version int64
	Name    string
	Moments Moments
}

// Outcomes returns the contents of a model's windows, sorted by version and name.
func (m *Manager) Outcomes(model string) []Outcome {
	m.mu.Lock()
	defer m.mu.Unlock()
	var all []Outcome
	for v, w := range m.windows {
		if v.model != model {
			continue
		}
		for name, s := range w.series {
			all = append(all, Outcome{v.number, name, s.moments()})
		}
	}
	slices.SortFunc(all, func(a, b Outcome) int {
		return cmp.Or(cmp.Compare(a.Version, b.Version), cmp.Compare(a.Name, b.Name))
	})
	return all
}

// moments sums the window up.
func (s *series) moments() Moments {
	var m Moments
	for _, e := range s.ring {
		m.Add(e.value)
	}
	return m
}
