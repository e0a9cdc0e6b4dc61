package rollout

import (
	"cmp"
	"hash/maphash"
	"math"
	"slices"
)

// Outcome sums up one outcome of one version over the window of its latest episodes.
type Outcome struct {
	Version int64
	Name    string
	Moments Moments
}

// tooLarge bounds outcomes, so that their squares stay finite.
const tooLarge = 1e100

// Report keeps how an episode went: numbers by name, a success being 1 or 0. Reported again, an episode's numbers
// replace the former ones while the window holds it. What is not kept: reports without an episode, of a version that is not there, numbers that are not finite or beyond ±1e100,
// and, with a line in the log, names beyond 16 of one version.
func (m *Manager) Report(model, episode string, number int64, values map[string]float64) {
	known := m.traffic.Snapshot().Model(model)
	if episode == "" || known == nil || known.Version(number) == nil {
		return
	}
	began, ok := m.began(model, episode)
	if !ok {
		began = m.now()
	}
	id := maphash.String(m.seed, episode)

	m.mu.Lock()
	w := m.windowLocked(version{model, number})
	leftOut := ""
	for name, value := range values {
		if !(math.Abs(value) <= tooLarge) {
			continue
		}
		s := w.named(name)
		if s == nil {
			leftOut = name
			continue
		}
		r := m.runs[model]
		counts := r.moments(number, name, began)
		if counts == nil || m.oldest == nil {
			s.put(id, value, counts)
			continue
		}
		s.put(id, value, nil)
		if len(r.waiting) < 2*maxEpisodes {
			r.waiting = append(r.waiting, waiting{s, id, began, counts})
		}
	}
	warn := leftOut != "" && !w.warned
	w.warned = w.warned || warn
	m.mu.Unlock()
	if warn {
		m.logger.Warn("an outcome is not kept: the version has as many names as are kept",
			"model", model, "version", number, "outcome", leftOut, "names", maxNames)
	}
}

func (m *Manager) windowLocked(v version) *window {
	w := m.windows[v]
	if w == nil {
		w = &window{series: map[string]*series{}}
		m.windows[v] = w
	}
	return w
}

// Outcomes returns what the windows hold of a model, sorted by version and name.
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
