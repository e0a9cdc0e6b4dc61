package host_test

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weftserve/weft/runtime/catalog"
	"github.com/weftserve/weft/runtime/engine"
	"github.com/weftserve/weft/runtime/modelrepo"
)

// wary is a session that notices when it is asked for its Stats at a bad moment.
type wary struct {
	engine.Session

	w      *world
	asked  *atomic.Int64
	closed atomic.Bool
}

func (s *wary) Stats() engine.Stats {
	s.asked.Add(1)
	if s.w.Locked() {
		s.w.t.Error("a session is asked what it knows with a lock of the host held")
	}
	if s.closed.Load() {
		s.w.t.Error("a closed session is asked what it knows")
	}
	s.w.Counts()
	return engine.Stats{
		Graphs: engine.Graphs{Known: true, Replayed: 1, Eager: 1, Failures: 1},
		Memory: engine.Memory{Known: true, Held: 1},
	}
}

func (s *wary) Close() error {
	s.closed.Store(true)
	return s.Session.Close()
}

// TestSessionsAreAskedAtGoodMoments: a session's Stats are read with no lock of the host held, and never once it is
// closed, while replicas come, move and go, and somebody looks at them all the time.
func TestSessionsAreAskedAtGoodMoments(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, m := newFleet(t, time.Second, "a", "b")
		var asked atomic.Int64
		w.add("m", 1, func(device string) (engine.Opened, error) {
			o, err := m.open(device)
			o.Session = &wary{Session: o.Session, w: w, asked: &asked}
			return o, err
		}, replicated(2))
		seen := []*catalog.Version{w.load("m")} // all that were published: its holder may ask any of them
		look := func() {
			for _, v := range seen {
				live := v.Live()
				if live.Replayed == 0 || live.Eager == 0 || live.GraphFailures == 0 {
					t.Errorf("it counts %+v", live)
				}
				if len(live.Memory) != len(v.Replicas) || slices.Max(live.Memory) != 1 || slices.Min(live.Memory) != 1 {
					t.Errorf("its %d replicas hold %d bytes, want 1 each", len(v.Replicas), live.Memory)
				}
			}
		}
		ctx, cancel := context.WithCancel(t.Context())
		var looking sync.WaitGroup
		first := seen[0]
		looking.Go(func() {
			for ctx.Err() == nil {
				first.Live()
				time.Sleep(time.Millisecond)
			}
		})
		for _, change := range []func(*modelrepo.Manifest){
			func(m *modelrepo.Manifest) { m.Weight = 3 }, replicated(1), replicated(2), replicated(1),
		} {
			w.edit("m", change)
			seen = append(seen, w.load("m"))
			look()
			synctest.Wait()
			look()
		}
		if err := w.Unload(t.Context(), "m", 1); err != nil {
			t.Fatal(err)
		}
		look()
		cancel()
		looking.Wait()
		if asked.Load() == 0 {
			t.Error("no session was asked")
		}
	})
}
