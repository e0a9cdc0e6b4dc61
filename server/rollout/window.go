package rollout

import (
	"maps"
	"slices"
	"strings"
	"time"
)

const (
	// maxEpisodes is how many of the latest episodes are remembered of one outcome of one version, so that a report
	// that comes again replaces the former.
	maxEpisodes = 10_000
	// maxNames is how many outcomes are kept of one version.
	maxNames = 16
	// maxWaiting is how many outcomes of a rollout wait for episodes that began before theirs: a window for each of its
	// versions.
	maxWaiting = 2 * maxEpisodes
)

// window is the latest outcomes of one version, by name.
type window struct {
	series map[string]*series
}

// names lists the outcomes.
func (w *window) names() string { return strings.Join(slices.Sorted(maps.Keys(w.series)), ", ") }

// named returns the series of an outcome, a new one if there is room, else nil.
func (w *window) named(name string) *series {
	s := w.series[name]
	if s == nil && len(w.series) < maxNames {
		s = &series{index: map[uint64]int{}}
		w.series[name] = s
	}
	return s
}

// reserve makes room for an outcome that a rollout waits for, at the cost of the one with the fewest episodes.
func (w *window) reserve(name string) {
	if w.named(name) != nil {
		return
	}
	fewest := ""
	for n, s := range w.series {
		if fewest == "" || len(s.ring) < len(w.series[fewest].ring) {
			fewest = n
		}
	}
	delete(w.series, fewest)
	w.named(name)
}

// series is the latest episodes of one outcome.
type series struct {
	ring  []*sample
	next  int            // where the next new episode goes once the ring is full
	index map[uint64]int // by episode
}

// sample is the outcome of one episode.
type sample struct {
	episode uint64 // a hash: an episode_id may be long
	value   float64
	began   time.Time
	// counted points to the moments that include the value, nil if none do. It stays there when the window moves on.
	counted *Moments
}

// count counts the value into moments. It must not have been counted before.
func (e *sample) count(moments *Moments) {
	e.counted = moments
	moments.Add(e.value)
}

// replace changes the value of an episode that is there, also where it was counted, and returns it; nil if it is not
// there.
func (s *series) replace(episode uint64, value float64) *sample {
	i, ok := s.index[episode]
	if !ok {
		return nil
	}
	old := s.ring[i]
	if old.counted != nil {
		old.counted.remove(old.value)
		old.counted.Add(value)
	}
	old.value = value
	return old
}

// add adds an episode that is not there, at the cost of the oldest one if there is no room. The sample of the oldest
// one stays valid for a stratum that has yet to count it.
func (s *series) add(episode uint64, value float64, began time.Time) *sample {
	entry := &sample{episode: episode, value: value, began: began}
	if len(s.ring) < maxEpisodes {
		s.index[episode] = len(s.ring)
		s.ring = append(s.ring, entry)
		return entry
	}
	delete(s.index, s.ring[s.next].episode)
	s.ring[s.next] = entry
	s.index[episode] = s.next
	s.next = (s.next + 1) % maxEpisodes
	return entry
}
