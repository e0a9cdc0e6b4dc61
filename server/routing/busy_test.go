package routing

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"testing"
	"time"
)

// scanned is lastUse as its definition says: it looks at every episode.
func scanned(t *episodes, v versionID, now time.Duration) (last time.Duration, used bool) {
	for i := range t.shards {
		for _, e := range t.shards[i].byID {
			if e.version() == v && !e.ended && !t.expired(e, now) {
				last, used = max(last, e.last), true
			}
		}
	}
	return last, used
}

// counted returns how many episodes the shards count as running, and how many there are.
func counted(t *episodes) (counted, running int) {
	for i := range t.shards {
		for _, n := range t.shards[i].on {
			counted += n.episodes
		}
		running += t.shards[i].running.len
	}
	return counted, running
}

// TestBusyIsCounted has episodes begin, go on, move to another version, end, be reported, expire and be forgotten for
// want of room, at random: whether a version is busy always agrees with a look at all of them, and nothing is counted
// that is not there.
func TestBusyIsCounted(t *testing.T) {
	for seed := range uint64(8) {
		t.Run(strconv.FormatUint(seed, 10), func(t *testing.T) {
			random := rand.New(rand.NewPCG(seed, 19))
			const most, ttl = 300, 50 * time.Second
			all, now := newEpisodes(most, ttl), time.Duration(0)
			busy, idle := 0, 0
			for step := range 6000 {
				id := episodeID{fmt.Sprint("m", random.IntN(2)), strconv.Itoa(random.IntN(200 + 400*int(seed%2)))}
				switch n := random.IntN(1000); {
				case n < 700: // a request
					was := all.find(id.model, id.episode, now)
					if was == (pin{}) || n < 100 {
						all.replace(id.model, id.episode, was, pin{version: 1 + random.Int64N(1+int64(step/600))}, now)
					}
				case n < 990:
					all.end(id.model, id.episode, n%2 == 0, now)
				case n < 995:
					now += time.Duration(random.IntN(20)) * time.Second
				case n < 999:
					all.running(now)
				default: // a pause in which all or most expire
					now += ttl - time.Second + time.Duration(random.IntN(3))*time.Second
				}
				v := versionID{fmt.Sprint("m", random.IntN(2)), 1 + random.Int64N(11)}
				last, want := scanned(all, v, now)
				// An episode that has ended since may have been the last that was heard of.
				if at, got := all.lastUse(v.model, v.number, now); got != want || got && (at < last || at > now) {
					t.Fatalf("step %d: %v is busy: %v, last at %v, want %v, %v", step, v, got, at, want, last)
				}
				if want {
					busy++
				} else {
					idle++
				}
				if in, there := counted(all); in != there {
					t.Fatalf("step %d: %d episodes are counted, %d run", step, in, there)
				}
			}
			now += 2 * ttl
			for n := range int64(11) {
				all.lastUse("m0", n, now)
				all.lastUse("m1", n, now)
			}
			if in, there := counted(all); in != 0 || there != 0 {
				t.Errorf("long after the last request %d episodes are counted, %d run", in, there)
			}
			if busy < 500 || idle < 500 {
				t.Errorf("a version was busy %d times and idle %d times: one of them was hardly tried", busy, idle)
			}
		})
	}
}
