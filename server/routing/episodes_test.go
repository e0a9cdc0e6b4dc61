package routing_test

import (
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weftserve/weft/runtime/catalog"
	"github.com/weftserve/weft/server/routing"
)

// clock is a clock that a test moves.
type clock struct{ now atomic.Int64 }

func (c *clock) Now() time.Time          { return time.Unix(0, c.now.Load()) }
func (c *clock) advance(d time.Duration) { c.now.Add(int64(d)) }

// TestExpiredEpisodesMakeRoomFirst fills the table twice: the second time no episode may be lost in favour of expired
// ones.
func TestExpiredEpisodesMakeRoomFirst(t *testing.T) {
	const most = 20_000
	c := &clock{}
	r := routing.NewRouter(routing.Config{Now: c.Now, EpisodeTTL: time.Minute, MaxEpisodes: most})
	for i := range 2 * most {
		if i == most {
			c.advance(2 * time.Minute)
		}
		mustRoute(t, r, serving(1, weights(1)), routing.Request{Episode: episodeName(i)})
	}
	if n := r.Episodes(); n != most {
		t.Errorf("%d episodes run, want %d", n, most)
	}
}

// TestTwoFirstRequests has another request of the episode come and go while the version for the first is being chosen.
func TestTwoFirstRequests(t *testing.T) {
	var r *routing.Router
	var other routing.Route
	meanwhile := func() { other = mustRoute(t, r, serving(2, weights(1, 1e9)), routing.Request{Episode: "e"}) }
	r = routing.NewRouter(routing.Config{Health: healthFunc(func(string, int64) bool {
		if run := meanwhile; run != nil {
			meanwhile = nil
			run()
		}
		return true
	})})
	first := mustRoute(t, r, serving(1, weights(1e9, 1)), routing.Request{Episode: "e"})
	if other.Version.Number != 2 || other.Pinned {
		t.Fatalf("the faster request went to %+v, want a new pin to version 2", other)
	}
	if first.Version.Number != 2 || !first.Pinned {
		t.Errorf("the slower request went to %+v, want to join the faster one", first)
	}
}

// TestOneEpisodeOneVersion sends the requests of young episodes from many goroutines while the traffic turns over.
func TestOneEpisodeOneVersion(t *testing.T) {
	const senders, episodes = 8, 2000
	r := routing.NewRouter(routing.Config{})
	var current atomic.Pointer[catalog.Snapshot]
	current.Store(serving(1, weights(1, 1, 1)))
	var seen [episodes]atomic.Int64
	var changed atomic.Int64
	var wg sync.WaitGroup
	for range senders {
		wg.Go(func() {
			for i := range episodes {
				route, err := r.Route(current.Load(), routing.Request{Model: "m", Episode: episodeName(i)})
				if err != nil {
					t.Error(err)
					return
				}
				if !seen[i].CompareAndSwap(0, route.Version.Number) && seen[i].Load() != route.Version.Number {
					changed.Add(1)
				}
				if i%10 == 0 {
					next := current.Load().Revision + 1
					split := weights(0, 0, 0)
					split[next%3].Weight = 1
					current.Store(serving(next, split))
				}
			}
		})
	}
	wg.Wait()
	if n := changed.Load(); n != 0 {
		t.Errorf("%d requests went to another version than their episode", n)
	}
	if n := r.Episodes(); n != episodes {
		t.Errorf("%d episodes run, want %d", n, episodes)
	}
}
