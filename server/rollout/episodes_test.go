package rollout

import (
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weftserve/weft/runtime/catalog"
)

// fleet is robots that play episodes, and a server's knowledge of them.
type fleet struct {
	*bench
	mu       sync.Mutex // the manager asks from a goroutine of its own
	episodes map[string]*played
	draws    uint64
}

type played struct {
	version  int64
	heard    time.Time
	reported bool
}

func newFleet(t *testing.T, change func(*Config)) *fleet {
	fl := &fleet{episodes: map[string]*played{}}
	fl.bench = newBench(t, func(c *Config) {
		c.Unfinished = func(string) (all []string) {
			fl.mu.Lock()
			defer fl.mu.Unlock()
			for name, e := range fl.episodes {
				if !e.reported && time.Since(e.heard) <= 30*time.Second {
					all = append(all, name)
				}
			}
			return all
		}
		if change != nil {
			change(c)
		}
	})
	return fl
}

// ask sends a request of an episode, its first one if there was none.
func (f *fleet) ask(episode string, version int64) {
	f.mu.Lock()
	e, now := f.episodes[episode], time.Now()
	begins := e == nil || e.reported
	if begins {
		e = &played{version: version}
		f.episodes[episode] = e
		f.draws++
	}
	e.heard = now
	f.mu.Unlock()
	if begins {
		f.Begun("m", version, Beginning{Episode: episode, Draw: f.draws, Table: "t", At: now})
	}
	ending := answered(time.Millisecond)
	ending.Episode = episode
	f.Observe("m", version, ending)
}

func (f *fleet) report(episode string, reward float64, by string) {
	f.Report("m", episode, f.reported(episode), map[string]float64{"reward": reward}, nil, by)
}

// reported returns the version of an episode that is over.
func (f *fleet) reported(episode string) int64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	if e := f.episodes[episode]; e != nil {
		e.reported = true
		return e.version
	}
	return 2
}

// TestRequestsCountWhereTheyWereLed: a request that ends after a step counts with the part that it was drawn by, and
// what was drawn before a restart is not drawn again after it.
func TestRequestsCountWhereTheyWereLed(t *testing.T) {
	var kept map[string]Kept
	var model *catalog.Model
	within(t, nil, func(t *testing.T, b *bench) {
		b.start(t, func(p *Plan) { p.Automatic, p.Stages = false, []float64{1, 50, 100} })
		early := faulty
		early.Routed = time.Now().Add(time.Millisecond)
		pass(time.Second)
		b.ask(baseline)
		if _, err := b.Advance("m"); err != nil {
			t.Fatal(err)
		}
		for range 40 {
			b.Observe("m", 1, early)
		}
		pass(2 * time.Second)
		s := b.runs["m"].evidence.Failures[whole]
		if information := s.Information; s.Count[baseline] != 41 || information > 0.5 {
			t.Errorf("%d requests of a stage of 1 %% count with the information %v", s.Count[baseline], information)
		}
		pass(20 * time.Second)
		kept, model = b.host.lastKept(), b.host.model
	})
	within(t, func(c *Config) { c.Kept, c.Traffic.(*host).model = kept, model }, func(t *testing.T, b *bench) {
		pass(time.Second)
		b.ask(baseline) // it is running, and its draw is that of before
		b.ask(baseline)
		pass(2 * time.Second)
		if e := b.runs["m"].evidence; e.Fates[baseline].Begun != 2 || e.Excluded["same_draw"][baseline] != 1 {
			t.Errorf("begun %+v, excluded %v", e.Fates, e.Excluded)
		}
	})
}

// TestWhatBeginsDuringALookIsNotLost: an episode that begins after the manager asked which go on, and that it hears of
// before it counts.
func TestWhatBeginsDuringALookIsNotLost(t *testing.T) {
	var during atomic.Pointer[func()]
	within(t, func(c *Config) {
		c.Unfinished = func(string) []string {
			if f := during.Swap(nil); f != nil {
				<-time.After(time.Microsecond)
				(*f)()
			}
			return nil
		}
	}, func(t *testing.T, b *bench) {
		b.start(t, nil)
		serve := func() {
			b.serve(1, 1, 2) // a report makes the manager listen
			b.ask(baseline)
			b.serve(1, 1, 2)
		}
		during.Store(&serve)
		pass(1500 * time.Millisecond)
		if r := b.state(t).Report; r.BaselineEpisodes.Lost != 0 || r.BaselineEpisodes.Begun < 1 {
			t.Errorf("%+v", r.BaselineEpisodes)
		}
	})
}

// TestNoDrawCountsTwice, also where more come than are remembered: names that are used again go where they went.
func TestNoDrawCountsTwice(t *testing.T) {
	r := newRun(Rollout{Plan: Plan{Stages: []float64{50}}}, 1, Evidence{})
	now := time.Now()
	r.span(now)
	counted := map[uint64]int{}
	const names = 3 * maxEpisodes
	for range 2 {
		for i := range uint64(names) {
			r.begin(i+1, int(i%2), &Beginning{Draw: (i + 1) * 0x9e3779b97f4a7c15, At: now})
			for _, e := range r.waiting {
				counted[e.id]++
			}
			r.waiting = nil
		}
	}
	for id, n := range counted {
		if n > 1 {
			t.Fatalf("name %d counted %d times", id, n)
		}
	}
	left := r.evidence.Excluded["same_draw"][0] + r.evidence.Excluded["no_room"][0]
	if n := len(r.drawn); n >= maxEpisodes || n != len(r.evidence.Drawn) || len(counted) < maxEpisodes || left == 0 {
		t.Errorf("%d counted, %d draws are known and %d kept, %d left out", len(counted), n, len(r.evidence.Drawn), left)
	}
}
