package routing_test

import (
	"slices"
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

// TestRunningEpisodesStay has as many episodes running as are remembered by default, and changes everything but their
// versions.
func TestRunningEpisodesStay(t *testing.T) {
	if testing.Short() {
		t.Skip("takes long")
	}
	var unfit atomic.Pointer[refusing]
	unfit.Store(&refusing{})
	r := routing.NewRouter(routing.Config{Health: healthFunc(
		func(model string, v int64) bool { return unfit.Load().Allow(model, v) })})
	began := make([]routing.Route, manyEpisodes)
	s := serving(1, weights(90, 10))
	for i := range began {
		began[i] = mustRoute(t, r, s, routing.Request{Episode: episodeName(i)})
		if began[i].Degraded || began[i].Pinned {
			t.Fatalf("a new episode's route is %+v", began[i])
		}
	}
	if n := r.Episodes(); n != manyEpisodes {
		t.Errorf("%d episodes are remembered, want %d", n, manyEpisodes)
	}
	reordered := weights(10, 90)
	slices.Reverse(reordered)
	for i, tt := range []struct {
		name  string
		split []catalog.Slot
		unfit refusing
	}{
		{"reweighted", weights(80, 20), nil},
		{"reversed", reordered, nil},
		{"promoted", []catalog.Slot{{Name: "prod", Version: 2, Weight: 1}}, nil},
		{"a third version takes all", weights(0, 0, 1), nil},
		{"not divided", nil, nil},
		{"breaker open", weights(90, 10), refusing{1}},
		{"all breakers open", weights(90, 10), refusing{1, 2, 3, 4}},
	} {
		unfit.Store(&tt.unfit)
		s := serving(uint64(i+2), tt.split)
		changed := 0
		for i := range began {
			route := mustRoute(t, r, s, routing.Request{Episode: episodeName(i)})
			if route.Version.Number != began[i].Version.Number || route.Slot != began[i].Slot || !route.Pinned ||
				route.FailedOverFrom != 0 {
				changed++
			}
		}
		if changed > 0 {
			t.Errorf("%s: %d of %d running episodes changed", tt.name, changed, manyEpisodes)
		}
	}
}

type healthFunc func(model string, version int64) bool

func (f healthFunc) Allow(model string, version int64) bool { return f(model, version) }
func (f healthFunc) Fit(model string, version int64) bool   { return f(model, version) }

func TestEpisodeOfAVersionThatIsGone(t *testing.T) {
	for _, state := range []catalog.State{catalog.Unloading, catalog.Failed, catalog.Loading, 0} {
		r := routing.NewRouter(routing.Config{})
		s := serving(1, weights(1, 1))
		var began []routing.Route
		for i := range 100 {
			began = append(began, mustRoute(t, r, s, routing.Request{Episode: episodeName(i)}))
		}
		s = serving(2, weights(1, 0, 1))
		if versions := s.Model("m").Versions; state != 0 {
			versions[1] = version("m", 2, state)
		} else {
			s.Model("m").Versions = slices.Delete(versions, 1, 2)
		}
		third := 0
		for i := range began {
			route := mustRoute(t, r, s, routing.Request{Episode: episodeName(i)})
			switch {
			case began[i].Version.Number == 1 && (route.Version.Number != 1 || !route.Pinned):
				t.Errorf("an episode left version 1, which is there, for %+v", route)
			case began[i].Version.Number == 2 && (route.Version.Number == 2 || route.Pinned):
				t.Errorf("%v: an episode stayed with %+v", state, route)
			}
			if route.Version.Number == 3 {
				third++
			}
			began[i] = route
		}
		for i := range began {
			again := mustRoute(t, r, serving(3, weights(0, 0, 0, 1)), routing.Request{Episode: episodeName(i)})
			if again.Version.Number != began[i].Version.Number || !again.Pinned {
				t.Errorf("%v: the new pin does not hold: first %+v, then %+v", state, began[i], again)
			}
		}
		if third == 0 {
			t.Errorf("%v: no episode was hashed anew", state)
		}
	}
}

func TestEndOfEpisode(t *testing.T) {
	c := &clock{}
	r := routing.NewRouter(routing.Config{Now: c.Now, EpisodeTTL: time.Minute})
	mustRoute(t, r, serving(1, weights(1)), routing.Request{Episode: "e"})
	mustRoute(t, r, serving(1, weights(1)), routing.Request{Episode: "other"})
	wantEpisode := func(when string, running int, version int64) {
		t.Helper()
		// First: counting forgets expired episodes.
		if got, ok := r.VersionOf("m", "e"); got != version || ok != (version != 0) {
			t.Errorf("%s: version of e is %d %v, want %d", when, got, ok, version)
		}
		if got := r.Episodes(); got != running {
			t.Errorf("%s: %d episodes run, want %d", when, got, running)
		}
	}
	wantEpisode("running", 2, 1)
	r.End("m", "e")
	r.End("m", "e")
	r.End("m", "never")
	r.End("n", "other")
	wantEpisode("ended", 1, 1)
	if route := mustRoute(t, r, serving(2, weights(0, 1)), routing.Request{Episode: "e"}); route.Version.Number != 2 ||
		route.Pinned {
		t.Errorf("after its end the episode still goes to %+v", route)
	}
	wantEpisode("begun again", 2, 2)
	r.End("m", "e")
	c.advance(time.Minute)
	wantEpisode("ended a minute ago", 1, 2)
	c.advance(1)
	wantEpisode("long ended", 0, 0)
}

func TestEpisodeTTLCountsFromTheLastRequest(t *testing.T) {
	c := &clock{}
	r := routing.NewRouter(routing.Config{Now: c.Now, EpisodeTTL: time.Minute})
	mustRoute(t, r, serving(1, weights(1)), routing.Request{Episode: "e"})
	after := serving(2, weights(0, 1))
	for range 3 {
		c.advance(time.Minute)
		r.VersionOf("m", "e") // renews nothing, as the last round shows
		if route := mustRoute(t, r, after, routing.Request{Episode: "e"}); route.Version.Number != 1 {
			t.Fatalf("an episode within its time went to %+v", route)
		}
	}
	c.advance(time.Minute)
	r.VersionOf("m", "e")
	c.advance(1)
	if route := mustRoute(t, r, after, routing.Request{Episode: "e"}); route.Version.Number != 2 || route.Pinned {
		t.Errorf("a forgotten episode went to %+v", route)
	}
}

func TestEpisodesAreBounded(t *testing.T) {
	for _, most := range []int{1, 3, 1000} {
		r := routing.NewRouter(routing.Config{MaxEpisodes: most})
		before, after := serving(1, weights(1)), serving(2, weights(0, 1))
		for i := range 10 * most {
			mustRoute(t, r, before, routing.Request{Episode: episodeName(i)})
			// The oldest, but not the longest silent.
			if busiest := mustRoute(t, r, before, routing.Request{Episode: episodeName(0)}); most > 1 &&
				!busiest.Pinned {
				t.Fatalf("bound %d: the busiest episode was forgotten", most)
			}
			if n := r.Episodes(); n > most {
				t.Fatalf("%d episodes run, bound %d", n, most)
			}
		}
		if n := r.Episodes(); n != most {
			t.Errorf("%d episodes are remembered, want %d", n, most)
		}
		if most == 1 {
			continue
		}
		if route := mustRoute(t, r, after, routing.Request{Episode: episodeName(1)}); route.Version.Number != 2 {
			t.Errorf("bound %d: the longest silent episode is remembered", most)
		}
	}
}

func TestEndedEpisodesMakeRoomFirst(t *testing.T) {
	r := routing.NewRouter(routing.Config{MaxEpisodes: 3})
	before, after := serving(1, weights(1)), serving(2, weights(0, 1))
	mustRoute(t, r, before, routing.Request{Episode: "running"})
	for i := range 100 {
		mustRoute(t, r, before, routing.Request{Episode: episodeName(i)})
		r.End("m", episodeName(i))
	}
	if route := mustRoute(t, r, after, routing.Request{Episode: "running"}); route.Version.Number != 1 {
		t.Error("a running episode was forgotten for one that had ended")
	}
	if _, ok := r.VersionOf("m", episodeName(99)); !ok {
		t.Error("the last that ended is forgotten although there was room")
	}
}

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

// TestWhenEpisodesBegan asks when episodes began, and which are unfinished.
func TestWhenEpisodesBegan(t *testing.T) {
	var c clock
	c.advance(time.Hour)
	r := routing.NewRouter(routing.Config{Now: c.Now})
	s := serving(1, weights(90, 10))
	at := map[string]time.Time{}
	for _, episode := range []string{"a", "b", "c"} {
		c.advance(time.Second)
		at[episode] = c.Now()
		if began := mustRoute(t, r, s, routing.Request{Episode: episode}).Began; !began.Equal(at[episode]) {
			t.Errorf("%s began at %v, want %v", episode, began, at[episode])
		}
		c.advance(time.Second)
		mustRoute(t, r, s, routing.Request{Episode: episode}) // not the first request
	}
	model := mustRoute(t, r, s, routing.Request{Episode: "b"}).Version.Model
	unfinished := func(want ...string) {
		t.Helper()
		got := r.Unfinished(model)
		if slices.Sort(got); !slices.Equal(got, want) {
			t.Errorf("unfinished: %v, want %v", got, want)
		}
	}
	unfinished("a", "b", "c")
	r.End(model, "a")
	unfinished("a", "b", "c") // its report may be on the way
	r.Reported(model, "a")
	unfinished("b", "c")
	if _, ok := r.VersionOf(model, "a"); !ok {
		t.Error("an episode that has just ended is forgotten")
	}
	r.End(model, "b")
	c.advance(31 * time.Second)
	unfinished() // nothing was heard of the others for half a minute
	mustRoute(t, r, s, routing.Request{Episode: "c"})
	unfinished("c")
	c.advance(time.Second)
	r.Reported(model, "c")
	again := mustRoute(t, r, s, routing.Request{Episode: "c"})
	if at["c"] = c.Now(); !again.Began.Equal(at["c"]) {
		t.Errorf("begun again at %v, want %v", again.Began, at["c"])
	}
	unfinished("c")
	for _, q := range []routing.Request{{Episode: "c"}, {}} {
		if route := mustRoute(t, r, s, q); !route.Began.IsZero() {
			t.Errorf("the request %+v begins no episode, yet one began at %v", q, route.Began)
		}
	}
	on := mustRoute(t, r, s, routing.Request{Episode: "c"}).Version.Number
	if !r.LastUse(model, on).Equal(c.Now()) || !r.LastUse(model, 7).IsZero() || !r.LastUse("another", on).IsZero() {
		t.Errorf("last used: version %d %v, want %v; 7 %v and another model %v, want never", on, r.LastUse(model, on),
			c.Now(), r.LastUse(model, 7), r.LastUse("another", on))
	}
	for _, episode := range []string{"b", "c"} {
		r.End(model, episode)
	}
	if !r.LastUse(model, on).IsZero() {
		t.Errorf("version %d is in use although all of its episodes have ended", on)
	}
	if got := r.Unfinished("another"); len(got) != 0 {
		t.Errorf("another model has unfinished episodes: %v", got)
	}
}

// TestAnIDThatIsUsedAgain is drawn anew, as long as the router remembers it, and its episode stays where it is.
func TestAnIDThatIsUsedAgain(t *testing.T) {
	var c clock
	r := routing.NewRouter(routing.Config{Now: c.Now})
	s := serving(1, weights(50, 50))
	draws, candidates := map[uint64]bool{}, 0
	const uses = 400
	for range uses {
		first := mustRoute(t, r, s, routing.Request{Episode: "robot-7"})
		draws[first.Draw] = true
		if first.Version.Number == 2 {
			candidates++
		}
		if second := mustRoute(t, r, s, routing.Request{Episode: "robot-7"}); second.Version != first.Version {
			t.Fatal("an episode left its version")
		}
		r.End(first.Version.Model, "robot-7")
		c.advance(time.Minute)
	}
	if len(draws) != uses || candidates < uses*4/10 || candidates > uses*6/10 {
		t.Errorf("%d draws of %d, %d to one of two versions", len(draws), uses, candidates)
	}
}
