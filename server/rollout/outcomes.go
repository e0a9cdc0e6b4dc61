package rollout

import (
	"fmt"
	"hash/maphash"
	"maps"
	"slices"
)

// MaxOutcome is the largest magnitude of an outcome: squares of outcomes stay finite.
const MaxOutcome = 1e100

// NotKept is a number of a report that is not kept.
type NotKept struct {
	Name   string
	Reason NotKeptReason
	// Message is the reason in words, with figures, and the remedy.
	Message string
}

// NotKeptReason says why a number is not kept.
type NotKeptReason string

// The reasons.
const (
	TooManyNames NotKeptReason = "too_many_names" // the version has the maximal number of different names
	// too many outcomes wait until episodes that began before theirs have ended
	TooManyWaiting NotKeptReason = "too_many_waiting"
	VersionGone    NotKeptReason = "version_gone" // the version is not there any more
)

// Report keeps how an episode went: numbers by name, a success being 1 or 0. The numbers must be finite and within
// ±MaxOutcome. Reported again, an episode's numbers replace the former ones while the window holds it. It returns the
// numbers for which there was no room, ascending by name; all others are kept.
func (m *Manager) Report(model, episode string, number int64, values map[string]float64) []NotKept {
	names := slices.Sorted(maps.Keys(values))
	if known := m.config.Traffic.Snapshot().Model(model); known == nil || known.Version(number) == nil {
		why := fmt.Sprintf("version %d of model %q is not there any more", number, model)
		var all []NotKept
		for _, name := range names {
			all = append(all, NotKept{name, VersionGone, why})
		}
		return all
	}
	began, known := m.config.Began(model, episode)
	if !known {
		began = m.config.Now()
	}
	id := maphash.String(m.seed, episode)

	m.mu.Lock()
	defer m.mu.Unlock()
	w, r := m.windowLocked(version{model, number}), m.runs[model]
	var notKept []NotKept
	for _, name := range names {
		s := w.named(name)
		if s == nil {
			notKept = append(notKept, NotKept{name, TooManyNames, fmt.Sprintf(
				"%d names are kept of a version, and version %d has as many: %s", maxNames, number, w.names())})
			continue
		}
		in, side := r.stratum(number, began)
		decides := r != nil && name == r.Gate.Outcome
		if !decides {
			in = nil
		}
		finished := func() {
			if in != nil && known {
				in.episodes[side].reported++
			}
		}
		if old := s.replace(id, values[name]); old != nil {
			if side, is := r.side(number); is && decides {
				r.repeated[side]++
			}
			if known && !old.began.Equal(began) { // another episode of the same name
				old.began = began
				finished()
			}
			continue
		}
		switch {
		case in == nil:
			s.add(id, values[name], began)
			if side, is := r.side(number); is && decides {
				r.outside[side]++
			}
		case m.config.Unfinished == nil:
			s.add(id, values[name], began).count(in.moments(side))
			finished()
		case len(r.waiting) < maxWaiting:
			r.waiting = append(r.waiting, waiting{s.add(id, values[name], began), in.moments(side), side})
			finished()
		default:
			r.noRoom[side]++
			notKept = append(notKept, NotKept{name, TooManyWaiting, fmt.Sprintf(
				"%d outcomes of the rollout wait for episodes that began before theirs: report it again later",
				maxWaiting)})
		}
	}
	return notKept
}

func (m *Manager) windowLocked(v version) *window {
	w := m.windows[v]
	if w == nil {
		w = &window{series: map[string]*series{}}
		m.windows[v] = w
	}
	return w
}
