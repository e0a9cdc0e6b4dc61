package rollout

import (
	"fmt"
	"math/rand/v2"
	"strings"
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

// withFleet runs f in a bubble, with a running Manager that knows of a fleet.
func withFleet(t *testing.T, f func(t *testing.T, fl *fleet)) {
	t.Helper()
	fl := &fleet{episodes: map[string]*played{}}
	within(t, func(c *Config) {
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
	}, func(t *testing.T, b *bench) {
		fl.bench = b
		f(t, fl)
	})
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
		f.Begun("m", version, Beginning{Episode: episode, Draw: f.draws, At: now})
	}
	ending := answered(time.Millisecond)
	ending.Episode = episode
	f.Observe("m", version, ending)
}

func (f *fleet) report(episode string, reward float64) {
	f.mu.Lock()
	e := f.episodes[episode]
	e.reported = true
	f.mu.Unlock()
	f.Report("m", episode, e.version, map[string]float64{"reward": reward}, "")
}

// counts returns how many outcomes count.
func (f *fleet) counts() [2]int64 {
	pass(2 * time.Second)
	f.Manager.mu.Lock()
	defer f.Manager.mu.Unlock()
	return f.runs["m"].evidence.Outcome.Count
}

// TestOutcomesWaitForOlderEpisodes, and for none that goes on for longer than any that was reported.
func TestOutcomesWaitForOlderEpisodes(t *testing.T) {
	withFleet(t, func(t *testing.T, f *fleet) {
		f.start(t, func(p *Plan) { p.Stages, p.Automatic = []float64{50, 100}, false })
		pass(time.Millisecond)
		began := time.Now()
		f.ask("long", 2)
		for i := range 20 {
			pass(time.Millisecond)
			name := fmt.Sprint("episode ", i)
			f.ask(name, int64(1+i%2))
			f.report(name, float64(i/2%2))
		}
		if got := f.counts(); got != [2]int64{} {
			t.Errorf("%v count, begun after one that goes on", got)
		}
		if got, want := f.state(t).Report.CandidateEpisodes,
			(Episodes{Begun: 11, Reported: 10, Waiting: 10, Unfinished: 1}); got != want {
			t.Errorf("%+v, want %+v", got, want)
		}
		for time.Since(began) < minPatience-5*time.Second {
			f.ask("long", 2)
			pass(5 * time.Second)
		}
		if got := f.counts(); got != [2]int64{} {
			t.Errorf("%v count, begun after one that goes on", got)
		}
		f.ask("long", 2)
		pass(5 * time.Second)
		if got := f.counts(); got != [2]int64{10, 10} {
			t.Errorf("%v count, after long enough", got)
		}
		f.report("long", 1)
		if got := f.counts(); got != [2]int64{10, 10} {
			t.Errorf("%v count with one that was given up", got)
		}
		began = time.Now()
		f.ask("as long", 2)
		f.ask("short", 1)
		f.report("short", 1)
		for time.Since(began) < minPatience+time.Minute {
			f.ask("as long", 2)
			pass(5 * time.Second)
		}
		if got := f.counts(); got != [2]int64{10, 10} {
			t.Errorf("%v count, begun after one that is not longer than that which was reported", got)
		}
		f.report("as long", 1)
		if got := f.counts(); got != [2]int64{11, 11} {
			t.Errorf("%v count, at the end", got)
		}
	})
}

// TestEpisodesAreToldApart: one that was reported twice, one that is begun again under its name, drawn anew or not, one
// of a version that is neither, one whose beginning was not seen, and one that began before.
func TestEpisodesAreToldApart(t *testing.T) {
	withFleet(t, func(t *testing.T, f *fleet) {
		f.ask("before", 2)
		pass(time.Second)
		f.start(t, func(p *Plan) { p.Automatic, p.Stages = false, []float64{50, 100} })
		pass(time.Second)
		f.report("before", 1)
		for range 2 {
			f.ask("twice", 2)
			f.report("twice", 1)
			f.report("twice", 2)
			pass(time.Second)
		}
		f.Report("m", "twice", 2, map[string]float64{"reward": 4}, "somebody else") // whose word changes nothing
		f.draws--                                                                   // the server did not remember the name
		f.ask("twice", 2)
		f.report("twice", 3)
		f.ask("other", 3)
		f.Report("m", "never seen", 2, map[string]float64{"reward": 1}, "")
		f.ask("of another outcome", 2)
		f.mu.Lock()
		f.episodes["of another outcome"].reported = true
		f.mu.Unlock()
		f.Report("m", "of another outcome", 2, map[string]float64{"success": 1}, "")
		pass(time.Second)
		f.ask("running", 2)
		pass(2 * time.Second)
		r := f.state(t).Report
		if want := (Episodes{Begun: 4, Reported: 2, Unfinished: 1, Lost: 1}); r.CandidateEpisodes != want {
			t.Errorf("%+v, want %+v", r.CandidateEpisodes, want)
		}
		var all []string
		for _, x := range r.Excluded {
			all = append(all, fmt.Sprint(x.Reason, " ", x.Candidate))
		}
		if got := strings.Join(all, ", "); got != "lost 1, outside 2, repeated 3, same_draw 1, unfinished 1" {
			t.Errorf("left out: %s", got)
		}
		if o := r.Metric("outcome"); o.CandidateCount != 2 || *o.Candidate != 2 {
			t.Errorf("%+v", o)
		}
	})
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

// TestCrashesAreJudged generates fleets whose robots crash at random moments and then send nothing more. The counts of
// episodes add up at every look, and a candidate that wrecks robots is not promoted.
func TestCrashesAreJudged(t *testing.T) {
	if testing.Short() {
		t.Skip("takes long")
	}
	const fleets = 40
	for _, c := range []struct {
		name                string
		baseline, candidate float64 // part of the episodes in which the robot crashes
		promoted            bool    // else rolled back
	}{
		{"no crashes", 0, 0, true},
		{"crashes of both alike", 0.2, 0.2, true},
		{"crashes of the baseline", 0.3, 0, true},
		{"a candidate that wrecks its robots", 0.02, 0.4, false},
		{"a candidate that wrecks them all", 0, 1, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			states := map[State]int{}
			for seed := range uint64(fleets) {
				withFleet(t, func(t *testing.T, f *fleet) {
					states[f.playOn(t, rand.New(rand.NewPCG(seed, 31)), [2]float64{c.baseline, c.candidate})]++
				})
			}
			t.Log(states)
			right, wrong := states[Promoted], states[RolledBack]
			if !c.promoted {
				right, wrong = wrong, right
			}
			if right < fleets*9/10 || wrong > fleets/20 {
				t.Errorf("%v of %d fleets", states, fleets)
			}
		})
	}
}

// playOn lets a fleet play for up to an hour, and returns how the rollout ended.
func (f *fleet) playOn(t *testing.T, r *rand.Rand, crashes [2]float64) State {
	t.Helper()
	f.start(t, func(p *Plan) {
		p.Stages = []float64{50, 100}
		p.Gate.Margin, p.Gate.OutcomeMax, p.Gate.MaxLostIncrease = 0.5, new(1.0), 0.15
	})
	type robot struct {
		episode string
		version int64
		left    int // requests
		crashed bool
	}
	const robots = 20
	pass(500 * time.Millisecond) // so that no look falls together with a request
	fleet := make([]robot, robots)
	for tick, n := 0, 0; tick < 3600; tick++ {
		pass(time.Second)
		now := f.state(t)
		for i := range fleet {
			rob := &fleet[i]
			if rob.left > 0 { // A crashed one stays silent, and a new one takes its place.
				f.ask(rob.episode, rob.version)
				if rob.left--; rob.left == 0 && !rob.crashed {
					f.report(rob.episode, float64(r.IntN(2)))
				}
				continue
			}
			n++
			*rob = robot{episode: fmt.Sprint("episode ", n), version: 2, left: 1 + r.IntN(20)}
			if r.Float64() >= now.Stages[now.Stage]/100 {
				rob.version = 1
			}
			if r.Float64() < crashes[rob.version-1] {
				rob.crashed, rob.left = true, 1+r.IntN(rob.left)
			}
		}
		if tick%10 != 0 {
			continue
		}
		if now.State != Running {
			if now.State == RolledBack {
				if _, why := last(now); !strings.Contains(why, "were lost") {
					t.Errorf("rolled back because %s", why)
				}
			}
			return now.State
		}
		for _, e := range []Episodes{now.Report.BaselineEpisodes, now.Report.CandidateEpisodes} {
			if e.Begun > e.Reported+e.Unfinished+e.Lost || e.Waiting > e.Reported || e.Lost < 0 {
				t.Fatalf("after %d s: %+v does not add up", tick, e)
			}
		}
	}
	t.Logf("undecided: %+v", f.state(t).Report)
	return Running
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
