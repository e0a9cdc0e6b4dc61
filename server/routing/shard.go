package routing

import (
	"sync"
	"sync/atomic"
	"time"
)

// versionID names a version of a model.
type versionID struct {
	model  string
	number int64
}

// shard is a part of the episodes behind a lock of its own.
type shard struct {
	mu sync.Mutex
	// The following are guarded by mu. Both lists have the longest silent first; on has the use of versions by running
	// ones.
	byID           map[episodeID]*episode
	running, ended list
	on             map[versionID]*use

	_ [64]byte // neighbours do not share a cache line
}

// use is how a version is used by the running episodes of a shard.
type use struct {
	episodes int
	last     time.Duration // when one of them, or one that has ended since, was last heard of
}

// episode is in one list of its shard, and owned by it.
type episode struct {
	id         episodeID
	pin        pin
	began      time.Duration // when it was pinned
	last       time.Duration // when it was last heard of
	ended      bool
	reported   bool // how it went
	use        *use // of its version, while it runs
	prev, next *episode
}

// version returns the version that the episode is held to.
func (e *episode) version() versionID { return versionID{e.id.model, e.pin.version} }

func (s *shard) init() {
	s.byID = map[episodeID]*episode{}
	s.on = map[versionID]*use{}
	s.running.init()
	s.ended.init()
}

// runLocked takes in an episode that runs.
func (s *shard) runLocked(e *episode) {
	s.running.pushBack(e)
	v := e.version()
	if e.use = s.on[v]; e.use == nil {
		e.use = &use{}
		s.on[v] = e.use
	}
	e.use.episodes++
	e.use.last = e.last
}

// removeLocked takes an episode out of its list, and out of the count if it was running.
func (s *shard) removeLocked(e *episode) {
	if e.ended {
		s.ended.remove(e)
		return
	}
	s.running.remove(e)
	if e.use.episodes--; e.use.episodes == 0 {
		delete(s.on, e.version()) // versions come and go for as long as the server runs
	}
}

// forgetOne forgets the episode whose loss costs least, and reports whether there was any: the one that ended longest
// ago, or else the running one that was silent for longest.
func (s *shard) forgetOne(total *atomic.Int64) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.forgetOneLocked(total)
}

func (s *shard) forgetOneLocked(total *atomic.Int64) bool {
	for _, l := range []*list{&s.ended, &s.running} {
		if l.len > 0 {
			s.forgetLocked(l.front(), total)
			return true
		}
	}
	return false
}

func (s *shard) forgetLocked(e *episode, total *atomic.Int64) {
	s.removeLocked(e)
	delete(s.byID, e.id)
	total.Add(-1)
}

// list is a ring of episodes through their own links, since container/list would allocate for each.
type list struct {
	root episode
	len  int
}

func (l *list) init() { l.root.prev, l.root.next = &l.root, &l.root }

func (l *list) front() *episode { return l.root.next }

func (l *list) pushBack(e *episode) {
	e.prev, e.next = l.root.prev, &l.root
	e.prev.next, l.root.prev = e, e
	l.len++
}

func (l *list) remove(e *episode) {
	e.prev.next, e.next.prev = e.next, e.prev
	e.prev, e.next = nil, nil
	l.len--
}

func (l *list) moveToBack(e *episode) {
	l.remove(e)
	l.pushBack(e)
}
