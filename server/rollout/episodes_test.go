package rollout

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"
)

// fleet is robots that play episodes, and a server's knowledge of them.
type fleet struct {
	*bench
	mu       sync.Mutex // the manager asks from a goroutine of its own
	episodes map[string]*played
}

type played struct {
	version  int64
	began    time.Time
	heard    time.Time
	reported bool
}

// withFleet runs f in a bubble, with a running Manager that knows of a fleet.
func withFleet(t *testing.T, f func(t *testing.T, fl *fleet)) {
	t.Helper()
	fl := &fleet{episodes: map[string]*played{}}
	within(t, func(c *Config) {
		c.Began = func(_, episode string) (time.Time, bool) {
			fl.mu.Lock()
			defer fl.mu.Unlock()
			if e := fl.episodes[episode]; e != nil {
				return e.began, true
			}
			return time.Time{}, false
		}
		c.Unfinished = func(_ string, since time.Time) map[int64][]time.Time {
			fl.mu.Lock()
			defer fl.mu.Unlock()
			all := map[int64][]time.Time{}
			for _, e := range fl.episodes {
				if !e.reported && !e.began.Before(since) && time.Since(e.heard) <= 30*time.Second {
					all[e.version] = append(all[e.version], e.began)
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
		e = &played{version: version, began: now}
		f.episodes[episode] = e
	}
	e.heard = now
	f.mu.Unlock()
	if begins {
		f.Begun("m", version, now)
	}
	f.Observe("m", version, answered(time.Millisecond))
}

func (f *fleet) report(episode string, reward float64) {
	f.mu.Lock()
	e := f.episodes[episode]
	e.reported = true
	f.mu.Unlock()
	f.Report("m", episode, e.version, map[string]float64{"reward": reward})
}

// TestUnfinishedEpisodesHoldNoStage: two episodes of three hundred run on for ever, begun before all others.
func TestUnfinishedEpisodesHoldNoStage(t *testing.T) {
	withFleet(t, func(t *testing.T, f *fleet) {
		f.start(t, func(p *Plan) { p.Stages, p.Gate.Margin = []float64{50, 100}, 1 })
		pass(time.Millisecond)
		alive := func() {
			f.ask("endless 1", 1)
			f.ask("endless 2", 2)
		}
		alive()
		play := func(from, to int) {
			for i := from; i < to; i++ {
				pass(time.Millisecond)
				name := fmt.Sprint("episode ", i)
				f.ask(name, int64(1+i%2))
				f.report(name, float64(i/2%2))
			}
		}
		play(0, 20)
		pass(2 * time.Second)
		r := f.state(t)
		want := `"reward" reported of 10 episodes of the candidate and 10 of the baseline, of which 0 and 0 count and the others wait for episodes that began before them (1 and 1 are unfinished), 10m0s at most; 20 of each needed`
		if got := named(r.Report, "episodes").Reason; got != want {
			t.Errorf("%s\nwant %s", got, want)
		}
		if got, want := r.Report.CandidateEpisodes,
			(Episodes{Begun: 11, Reported: 10, Waiting: 10, Unfinished: 1}); got != want {
			t.Errorf("%+v, want %+v", got, want)
		}
		play(20, 300)
		for range 20 {
			alive()
			pass(2 * time.Second)
		}
		r = f.state(t)
		if r.Stage != 1 {
			t.Fatalf("two unfinished episodes of 302 hold the stage: %+v", r.Report.Checks)
		}
		want = `"reward" reported of 150 episodes of the candidate and 150 of the baseline, 20 of each needed`
		if got := named(r.Report, "episodes").Reason; got != want {
			t.Errorf("%s\nwant %s", got, want)
		}
		pass(30 * time.Second)
		r = f.state(t)
		want = `1 of 151 episodes of the candidate and 1 of 151 of the baseline were lost, with nothing heard of them for half a minute and no "reward" reported; 0 and 0 are unfinished; a part of 0.006623 against 0.006623, and 0.05 more is allowed`
		if got := named(r.Report, "lost").Reason; got != want {
			t.Errorf("%s\nwant %s", got, want)
		}
	})
}

// TestOldUnfinishedEpisodesHoldNothing: however many they are, ten minutes after they began others count.
func TestOldUnfinishedEpisodesHoldNothing(t *testing.T) {
	withFleet(t, func(t *testing.T, f *fleet) {
		f.start(t, func(p *Plan) { p.Automatic = false })
		pass(time.Millisecond)
		counts := func(want int64) {
			t.Helper()
			pass(2 * time.Second)
			if b, c := episodes(evidenceOf(f).Strata); b != want || c != 0 {
				t.Errorf("%d and %d count, want %d of the baseline", b, c, want)
			}
		}
		endless := func() {
			for i := range 30 {
				f.ask(fmt.Sprint("endless ", i), 2)
			}
		}
		began := time.Now()
		for time.Since(began) < longest-25*time.Second {
			endless()
			pass(20 * time.Second)
		}
		f.ask("short", 1)
		f.report("short", 1)
		endless()
		counts(0)
		pass(longest - time.Since(began))
		endless()
		counts(1)
	})
}

func evidenceOf(f *fleet) Evidence {
	f.Manager.mu.Lock()
	defer f.Manager.mu.Unlock()
	return f.runs["m"].evidence(0, 0)
}

// TestCrashesAreJudged generates fleets whose robots crash at random moments and then send nothing more. The counts of
// episodes add up at every look, and a candidate that wrecks robots is not promoted.
func TestCrashesAreJudged(t *testing.T) {
	if testing.Short() {
		t.Skip("takes long")
	}
	const fleets = 60
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

// playOn lets a fleet play for up to half an hour, and returns how the rollout ended.
func (f *fleet) playOn(t *testing.T, r *rand.Rand, crashes [2]float64) State {
	t.Helper()
	f.start(t, func(p *Plan) { p.Stages, p.Gate.Margin = []float64{50, 100}, 0.5 })
	type robot struct {
		episode string
		version int64
		left    int // requests
		crashed bool
	}
	const robots = 20
	pass(500 * time.Millisecond) // so that no look falls together with a request
	fleet := make([]robot, robots)
	for tick, n := 0, 0; tick < 1800; tick++ {
		pass(time.Second)
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
			*rob = robot{episode: fmt.Sprint("episode ", n), version: int64(1 + r.IntN(2)), left: 1 + r.IntN(20)}
			if r.Float64() < crashes[rob.version-1] {
				rob.crashed, rob.left = true, 1+r.IntN(rob.left)
			}
		}
		if tick%10 != 0 {
			continue
		}
		now := f.state(t)
		if now.State != Running {
			if now.State == RolledBack {
				if _, why := last(now); !strings.Contains(why, "were lost") {
					t.Errorf("rolled back because %s", why)
				}
			}
			return now.State
		}
		for _, e := range []Episodes{now.Report.BaselineEpisodes, now.Report.CandidateEpisodes} {
			if e.Begun != e.Reported+e.Unfinished+e.Lost || e.Waiting > e.Reported || e.Lost < 0 {
				t.Fatalf("after %d s: %+v does not add up", tick, e)
			}
		}
	}
	return Running
}

// TestEpisodesAreToldApart: one that is reported twice, one that is begun again under its name, one of a version that
// is neither, and one whose beginning was not seen.
func TestEpisodesAreToldApart(t *testing.T) {
	withFleet(t, func(t *testing.T, f *fleet) {
		f.ask("before", 2)
		pass(time.Second)
		f.start(t, func(p *Plan) { p.Automatic = false })
		pass(time.Second)
		f.report("before", 1)
		for range 2 {
			f.ask("twice", 2)
			f.report("twice", 1)
			f.report("twice", 2)
			pass(time.Second)
		}
		f.ask("other", 3)
		f.Report("m", "never seen", 2, map[string]float64{"reward": 1})
		f.ask("of another outcome", 2)
		f.mu.Lock()
		f.episodes["of another outcome"].reported = true
		f.mu.Unlock()
		f.Report("m", "of another outcome", 2, map[string]float64{"success": 1})
		f.ask("running", 2)
		pass(2 * time.Second)
		got := f.state(t).Report.CandidateEpisodes
		if want := (Episodes{Begun: 4, Reported: 2, Waiting: 1, Unfinished: 1, Lost: 1}); got != want {
			t.Errorf("%+v, want %+v", got, want)
		}
	})
}
