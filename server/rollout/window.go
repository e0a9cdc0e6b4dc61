package rollout

const (
	// maxEpisodes is how many of the latest episodes are remembered of one outcome of one version, so that a report that
	// comes again replaces the former.
	maxEpisodes = 10_000
	// maxNames is how many outcomes are kept of one version.
	maxNames = 16
)

// window is the latest outcomes of one version, by name.
type window struct {
	series map[string]*series
	warned bool // that names were left out
}

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
	ring  []sample
	next  int            // where the next new episode goes once the ring is full
	index map[uint64]int // by episode
}

// sample is the outcome of one episode.
type sample struct {
	episode uint64 // a hash: an episode_id may be long
	value   float64
	// counted is where the value went into, nil if nowhere. It stays there when the window moves on.
	counted *Moments
}

// put adds an episode's value and counts it into moments, unless that is nil. The value of an episode that is there already
// is replaced where it was counted.
func (s *series) put(episode uint64, value float64, moments *Moments) {
	if i, ok := s.index[episode]; ok {
		old := &s.ring[i]
		if old.counted != nil {
			old.counted.remove(old.value)
			old.counted.Add(value)
		}
		old.value = value
		return
	}
	if moments != nil {
		moments.Add(value)
	}
	entry := sample{episode: episode, value: value, counted: moments}
	if len(s.ring) < maxEpisodes {
		s.index[episode] = len(s.ring)
		s.ring = append(s.ring, entry)
		return
	}
	delete(s.index, s.ring[s.next].episode)
	s.ring[s.next] = entry
	s.index[episode] = s.next
	s.next = (s.next + 1) % maxEpisodes
}

// count counts the value of an episode into moments, if it is still there and was not counted.
func (s *series) count(episode uint64, moments *Moments) {
	if i, ok := s.index[episode]; ok && s.ring[i].counted == nil {
		s.ring[i].counted = moments
		moments.Add(s.ring[i].value)
	}
}

// moments sums the window up.
func (s *series) moments() Moments {
	var m Moments
	for _, e := range s.ring {
		m.Add(e.value)
	}
	return m
}
