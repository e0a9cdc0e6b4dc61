package predict

import (
	"maps"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weftserve/weft/runtime/catalog"
)

// Statistics counts the requests of all protocols: all together, and by the version that they came to. The zero value
// is ready. It is safe for concurrent use.
type Statistics struct {
	answered, lacked atomic.Uint64

	mu       sync.Mutex
	versions map[versionKey]*Counts // guarded by mu
}

// versionKey names a version. Its counts begin anew if it is removed and comes back, see Keep.
type versionKey struct {
	model  string
	number int64
}

// Counts are of the requests of one version.
type Counts struct {
	Succeeded, Failed Sum
	// Queue, Phases, Rows and Last are of the requests that succeeded, and of their executions.
	Queue  time.Duration
	Phases catalog.Phases
	Rows   uint64
	Last   time.Time // zero: there was none
}

// Sum is a number of requests and how long they took.
type Sum struct {
	Count uint64
	Took  time.Duration
}

func (s *Sum) add(d time.Duration) { s.Count, s.Took = s.Count+1, s.Took+d }

// Of returns the counts of a version.
func (s *Statistics) Of(model string, number int64) Counts {
	s.mu.Lock()
	defer s.mu.Unlock()
	if c := s.versions[versionKey{model, number}]; c != nil {
		return *c
	}
	return Counts{}
}

// Totals returns how many requests were answered, ever, and how many could not be for lack of capacity.
func (s *Statistics) Totals() (answered, lacked uint64) { return s.answered.Load(), s.lacked.Load() }

// Keep forgets the versions that are not in a snapshot, so that versions that come and go take no memory.
func (s *Statistics) Keep(now *catalog.Snapshot) {
	s.mu.Lock()
	defer s.mu.Unlock()
	maps.DeleteFunc(s.versions, func(k versionKey, _ *Counts) bool {
		m := now.Model(k.model)
		return m == nil || m.Version(k.number) == nil
	})
}

// count counts a request: by version unless it came to none.
func (s *Statistics) count(e *Event) {
	switch {
	case e.Ending == Answered:
		s.answered.Add(1)
	case e.Lacked:
		s.lacked.Add(1)
	}
	if e.Version == 0 {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	k := versionKey{e.Model, e.Version}
	c := s.versions[k]
	if c == nil {
		if s.versions == nil {
			s.versions = map[versionKey]*Counts{}
		}
		c = &Counts{}
		s.versions[k] = c
	}
	if e.Ending != Answered {
		c.Failed.add(e.Duration)
		return
	}
	c.Succeeded.add(e.Duration)
	x := &e.Execution
	c.Queue += x.Outcome.Queue
	c.Phases = c.Phases.Plus(x.Phases)
	c.Rows += uint64(max(1, x.Rows))
	c.Last = e.Ended
}
