package access

import (
	"sync"
	"time"
)

// verdict is what is known of a JWT until some time: what it proves, or why it is refused.
type verdict struct {
	proof Proof
	fault error
	until time.Time
}

const (
	// refusedFor is how long it is remembered that a token is refused: its key may come with the next fetch.
	refusedFor = 5 * time.Second
	// shards is the number of locks: calls share each with a few others only.
	shards = 16
	// perShard bounds the memory of tokens, which takes about half a kilobyte each.
	perShard = 1024
	// few is how many are looked at to make room: all would take a stranger's tokens a thousand times as long.
	few = 8
)

// verdicts remembers the JWTs that were verified lately, by their hash.
type verdicts [shards]struct {
	mu sync.Mutex
	of map[[32]byte]verdict // guarded by mu
}

func (all *verdicts) get(hash [32]byte, now time.Time) (verdict, bool) {
	s := &all[hash[0]%shards]
	s.mu.Lock()
	defer s.mu.Unlock()
	v, is := s.of[hash]
	return v, is && now.Before(v.until)
}

// put remembers a verdict. Of a few others, those that are over go; if there is no room, any of them does.
func (all *verdicts) put(hash [32]byte, v verdict, now time.Time) {
	s := &all[hash[0]%shards]
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.of == nil {
		s.of = map[[32]byte]verdict{}
	}
	looked := 0
	for h, old := range s.of {
		if looked++; looked > few {
			break
		}
		if len(s.of) >= perShard || !now.Before(old.until) {
			delete(s.of, h)
		}
	}
	s.of[hash] = v
}
