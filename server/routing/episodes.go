package routing

import (
	"hash/maphash"
	"strings"
	"sync/atomic"
	"time"
)

// pin is the version that an episode is held to. The zero value is none: versions are positive.
type pin struct {
	version        int64
	slot           string
	table          string // that led there, as Route.Table
	failedOverFrom int64
}

// episodeID names an episode: two models may have episodes of one name.
type episodeID struct{ model, episode string }

// maxShards is how many locks share the episodes, and minPerShard how many episodes are worth another lock.
const (
	maxShards   = 64
	minPerShard = 64
)

// episodes remembers the pins of running and lately ended episodes: at most max (and one for each call that is adding
// one), each until ttl after its last request or its end. Times are since any fixed moment. There is no goroutine: the
// next call sweeps.
//
// It forgets the least recently used of the shard that needs room, which with episodes spread evenly is nearly the
// least recently used of all.
type episodes struct {
	max    int64
	ttl    time.Duration
	seed   maphash.Seed // random: nobody can choose ids that crowd one shard
	total  atomic.Int64
	shards []shard // a power of two
}

// newEpisodes returns memory for so many episodes, with a power of two of shards: each has room for minPerShard of them
// or more.
func newEpisodes(most int, ttl time.Duration) *episodes {
	n := 1
	for n < maxShards && 2*n*minPerShard <= most {
		n *= 2
	}
	t := &episodes{max: int64(most), ttl: ttl, seed: maphash.MakeSeed(), shards: make([]shard, n)}
	for i := range t.shards {
		t.shards[i].init()
	}
	return t
}

func (t *episodes) shardOf(episode string) *shard { return &t.shards[t.indexOf(episode)] }

func (t *episodes) indexOf(episode string) int {
	return int(maphash.String(t.seed, episode) & uint64(len(t.shards)-1))
}

// find returns the pin of a running episode and renews it.
func (t *episodes) find(model, episode string, now time.Duration) pin {
	s := t.shardOf(episode)
	s.mu.Lock()
	defer s.mu.Unlock()
	e := s.byID[episodeID{model, episode}]
	if e == nil || e.ended || t.expired(e, now) {
		return pin{}
	}
	e.last, e.use.last = now, now
	s.running.moveToBack(e)
	return e.pin
}

// peek returns the pin of an episode that is running or ended lately.
func (t *episodes) peek(model, episode string, now time.Duration) (p pin) {
	s := t.shardOf(episode)
	s.mu.Lock()
	defer s.mu.Unlock()
	if e := s.byID[episodeID{model, episode}]; e != nil && !t.expired(e, now) {
		p = e.pin
	}
	return p
}

// unfinished returns those episodes of a model that were heard of after heard, and were not reported. It looks at all
// episodes.
func (t *episodes) unfinished(model string, heard time.Duration) (all []string) {
	for i := range t.shards {
		s := &t.shards[i]
		s.mu.Lock()
		for _, l := range []*list{&s.running, &s.ended} {
			for e := l.root.prev; e != &l.root && e.last >= heard; e = e.prev { // the latest heard of first
				if e.id.model == model && !e.reported {
					all = append(all, e.id.episode)
				}
			}
		}
		s.mu.Unlock()
	}
	return all
}

// lastUse returns whether episodes run on a model's version, and when one on it was last heard of. It asks each
// shard, which knows once it has forgotten its expired episodes; that happens to each episode once.
func (t *episodes) lastUse(model string, version int64, now time.Duration) (last time.Duration, used bool) {
	v := versionID{model, version}
	for i := range t.shards {
		s := &t.shards[i]
		s.mu.Lock()
		if s.on[v] != nil {
			t.forgetExpiredLocked(s, now, len(s.byID))
		}
		if u := s.on[v]; u != nil {
			last, used = max(last, u.last), true
		}
		s.mu.Unlock()
	}
	return last, used
}

// replace makes next the pin of an episode if it is still was, which find returned, and reports whether it did.
func (t *episodes) replace(model, episode string, was, next pin, now time.Duration) bool {
	i := t.indexOf(episode)
	done, crowded := t.replaceIn(&t.shards[i], episodeID{model, episode}, was, next, now)
	for n := 1; crowded && n < len(t.shards); n++ {
		crowded = !t.shards[(i+n)%len(t.shards)].forgetOne(&t.total)
	}
	return done
}

// replaceIn is replace in one shard. crowded reports whether there are too many episodes and none but the new one in
// this shard.
func (t *episodes) replaceIn(s *shard, id episodeID, was, next pin, now time.Duration) (done, crowded bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	const sweep = 4 // more than one, so that expired episodes make room before it is needed
	t.forgetExpiredLocked(s, now, sweep)
	e := s.byID[id]
	if e != nil && !e.ended && !t.expired(e, now) && e.pin != was {
		return false, false
	}
	// A pin that vanished since find is not another request's choice.
	if e != nil {
		s.removeLocked(e)
		e.ended, e.reported = false, false
	} else {
		if t.total.Add(1) > t.max {
			crowded = !s.forgetOneLocked(&t.total)
		}
		id.episode = strings.Clone(id.episode) // not the message that it came in
		e = &episode{id: id}
		s.byID[id] = e
	}
	e.pin, e.began, e.last = next, now, now
	s.runLocked(e)
	return true, crowded
}

// end ends an episode, and keeps its pin for peek, not for find. reported: a report of its outcome ended it.
func (t *episodes) end(model, episode string, reported bool, now time.Duration) {
	s := t.shardOf(episode)
	s.mu.Lock()
	defer s.mu.Unlock()
	e := s.byID[episodeID{model, episode}]
	if e == nil || t.expired(e, now) {
		return
	}
	e.reported = e.reported || reported
	if e.ended {
		return
	}
	s.removeLocked(e)
	e.ended, e.last = true, now
	s.ended.pushBack(e)
}

// running returns how many episodes have neither ended nor expired.
func (t *episodes) running(now time.Duration) int {
	n := 0
	for i := range t.shards {
		s := &t.shards[i]
		s.mu.Lock()
		t.forgetExpiredLocked(s, now, len(s.byID))
		n += s.running.len
		s.mu.Unlock()
	}
	return n
}

func (t *episodes) expired(e *episode, now time.Duration) bool { return now-e.last > t.ttl }

// forgetExpiredLocked forgets expired episodes of a shard, at most so many: those at the fronts of its lists, which
// were silent for longest. The caller holds the shard's mu.
func (t *episodes) forgetExpiredLocked(s *shard, now time.Duration, most int) {
	for _, l := range []*list{&s.ended, &s.running} {
		for ; most > 0 && l.len > 0 && t.expired(l.front(), now); most-- {
			s.forgetLocked(l.front(), &t.total)
		}
	}
}
