package rollout

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestReportAgainReplaces(t *testing.T) {
	within(t, nil, func(t *testing.T, b *bench) {
		b.Report("m", "before", 2, map[string]float64{"reward": 100})
		b.start(t, nil)
		b.Report("m", "a", 2, map[string]float64{"reward": 1, "success": 1})
		b.Report("m", "b", 2, map[string]float64{"reward": 2})
		b.Report("m", "a", 2, map[string]float64{"reward": 4})
		b.Report("m", "before", 2, map[string]float64{"reward": 200}) // stays out of the rollout
		b.Report("m", "c", 1, map[string]float64{"reward": 9})

		s := b.runs["m"].strata[0]
		if s.Candidate.Count != 2 || s.Candidate.Mean != 3 || s.Baseline.Count != 1 || s.Baseline.Mean != 9 {
			t.Errorf("counted %+v", s.Stratum)
		}
		if x := (Excluded{"repeated", 0, 2}); !slices.Contains(excludedOf(b.runs["m"]), x) {
			t.Errorf("excluded are %+v, want %+v among them", excludedOf(b.runs["m"]), x)
		}
		var got []string
		for _, o := range b.Outcomes("m") {
			got = append(got, fmt.Sprintf("%d %s %d %.2f", o.Version, o.Name, o.Moments.Count, o.Moments.Mean))
		}
		if d := cmp.Diff([]string{"1 reward 1 9.00", "2 reward 3 68.67", "2 success 1 1.00"}, got); d != "" {
			t.Error(d)
		}
	})
}

func TestReportKeepsNot(t *testing.T) {
	within(t, nil, func(t *testing.T, b *bench) {
		for name, got := range map[string][]NotKept{
			`version 9 of model "m" is not there any more`: b.Report("m", "a", 9,
				map[string]float64{"success": 1, "reward": 1}),
			`version 1 of model "other" is not there any more`: b.Report("other", "a", 1,
				map[string]float64{"success": 1, "reward": 1}),
		} {
			if d := cmp.Diff([]NotKept{{"reward", VersionGone, name}, {"success", VersionGone, name}}, got); d != "" {
				t.Error(d)
			}
		}
		if len(b.windows) != 0 {
			t.Errorf("%d windows", len(b.windows))
		}
	})
}

func TestWindowIsBounded(t *testing.T) {
	within(t, nil, func(t *testing.T, b *bench) {
		for i := range maxEpisodes + 10 {
			b.Report("m", strconv.Itoa(i), 1, map[string]float64{"reward": float64(i)})
		}
		b.Report("m", "10", 1, map[string]float64{"reward": 0}) // the oldest that is there
		b.Report("m", "9", 1, map[string]float64{"reward": 1})  // a new one to the window, which takes the place of 10
		o := b.Outcomes("m")[0].Moments
		if o.Count != maxEpisodes || o.Min != 1 {
			t.Errorf("%+v", o)
		}
		if s := b.windows[version{"m", 1}].series["reward"]; len(s.index) != maxEpisodes || len(s.ring) != maxEpisodes {
			t.Errorf("%d in the ring, %d in the index", len(s.ring), len(s.index))
		}
	})
}

// TestEvictedEpisodesStayCounted: an episode that a rollout counted does not leave it with the window.
func TestEvictedEpisodesStayCounted(t *testing.T) {
	within(t, nil, func(t *testing.T, b *bench) {
		b.start(t, nil)
		for i := range maxEpisodes + 10 {
			b.Report("m", strconv.Itoa(i), 1, map[string]float64{"reward": 1})
		}
		if n := b.runs["m"].strata[0].Baseline.Count; n != maxEpisodes+10 {
			t.Errorf("%d episodes counted", n)
		}
	})
}

func TestNamesAreBounded(t *testing.T) {
	within(t, nil, func(t *testing.T, b *bench) {
		for i := range maxNames {
			if got := b.Report("m", "a", 2, map[string]float64{fmt.Sprint("name ", i): 1}); got != nil {
				t.Errorf("number %d is not kept: %+v", i, got)
			}
		}
		for range 2 {
			got := b.Report("m", "a", 2, map[string]float64{"name 3": 2, "z": 1, "a": 1})
			if len(got) != 2 || got[0].Name != "a" || got[1].Name != "z" || got[0].Reason != TooManyNames ||
				!strings.HasPrefix(got[0].Message,
					"16 names are kept of a version, and version 2 has as many: name 0, name 1, name 10,") {
				t.Errorf("not kept: %+v", got)
			}
		}
		kept := b.Outcomes("m")
		if n := len(kept); n != maxNames {
			t.Errorf("%d names kept", n)
		}
		if i := slices.IndexFunc(kept, func(o Outcome) bool { return o.Name == "name 3" }); i < 0 ||
			kept[i].Moments.Mean != 2 {
			t.Errorf("what was reported beside names without room: %+v", kept)
		}
		b.Report("m", "b", 2, map[string]float64{"name 0": 1})
		b.start(t, nil)
		b.Report("m", "c", 2, map[string]float64{"reward": 1})
		if n := b.runs["m"].strata[0].Candidate.Count; n != 1 {
			t.Errorf("the rollout's outcome found no room: %d episodes", n)
		}
		if w := b.windows[version{"m", 2}]; len(w.series) != maxNames || w.series["name 0"] == nil {
			t.Errorf("%d names, the fullest kept: %v", len(w.series), w.series["name 0"] != nil)
		}
	})
}

func TestGoneVersionsAreForgotten(t *testing.T) {
	within(t, nil, func(t *testing.T, b *bench) {
		b.Report("m", "a", 2, map[string]float64{"reward": 1})
		b.Report("m", "a", 3, map[string]float64{"reward": 1})
		b.host.put(3, 0)
		pass(2 * time.Second)
		if got := b.Outcomes("m"); len(got) != 1 || got[0].Version != 2 {
			t.Errorf("%+v", got)
		}
	})
}

// TestEpisodesCountWhereTheyBegan: an episode belongs to the stage in which it began, and to no rollout if that was
// before.
func TestEpisodesCountWhereTheyBegan(t *testing.T) {
	began := map[string]time.Time{}
	known := func(c *Config) {
		c.Began = func(_, episode string) (time.Time, bool) {
			at, ok := began[episode]
			return at, ok
		}
	}
	within(t, known, func(t *testing.T, b *bench) {
		began["before"] = time.Now()
		pass(time.Second)
		b.start(t, func(p *Plan) { p.Automatic, p.Stages = false, []float64{10, 50, 100} })
		began["first"] = time.Now()
		for _, episode := range []string{"second", "last"} {
			pass(time.Second)
			if _, err := b.Advance("m"); err != nil {
				t.Fatal(err)
			}
			began[episode] = time.Now()
		}
		for _, episode := range []string{"before", "first", "second", "second, unknown when", "last"} {
			b.Report("m", episode, 1, map[string]float64{"reward": 1})
		}
		b.Report("m", "first", 3, map[string]float64{"reward": 1})
		strata := b.runs["m"].strata
		if len(strata) != 2 || strata[0].Baseline.Count != 1 || strata[1].Baseline.Count != 1 ||
			strata[0].Candidate.Count != 0 {
			t.Errorf("%d strata, the first %+v, the second %+v", len(strata), strata[0].Stratum, strata[1].Stratum)
		}
	})
}

// TestOutcomesWaitForOlderEpisodes: of two episodes that began together the shorter one does not count before the
// longer one.
func TestOutcomesWaitForOlderEpisodes(t *testing.T) {
	var mu sync.Mutex // the manager asks from a goroutine of its own
	began, running := map[string]time.Time{}, map[string]bool{}
	known := func(c *Config) {
		c.Began = func(_, episode string) (time.Time, bool) {
			mu.Lock()
			defer mu.Unlock()
			at, ok := began[episode]
			return at, ok
		}
		c.Unfinished = func(_ string, since time.Time) map[int64][]time.Time {
			mu.Lock()
			defer mu.Unlock()
			all := map[int64][]time.Time{}
			for episode := range running {
				if at := began[episode]; !at.Before(since) {
					all[1] = append(all[1], at)
				}
			}
			return all
		}
	}
	within(t, known, func(t *testing.T, b *bench) {
		begin := func(episode string) {
			mu.Lock()
			defer mu.Unlock()
			began[episode], running[episode] = time.Now(), true
		}
		end := func(episode string, version int64, reward float64) {
			mu.Lock()
			delete(running, episode)
			mu.Unlock()
			b.Report("m", episode, version, map[string]float64{"reward": reward})
		}
		begin("before the rollout")
		pass(time.Second)
		b.start(t, func(p *Plan) { p.Automatic, p.Stages = false, []float64{10, 100} })
		counts := func(baseline, candidate int64) {
			t.Helper()
			pass(2 * time.Second) // a look
			b.mu.Lock()
			defer b.mu.Unlock()
			if s := b.runs["m"].strata[0]; s.Baseline.Count != baseline || s.Candidate.Count != candidate {
				t.Errorf("%d and %d episodes count, want %d and %d", s.Baseline.Count, s.Candidate.Count, baseline,
					candidate)
			}
		}
		begin("long")
		pass(time.Millisecond)
		begin("short")
		end("short", 2, 1)
		counts(0, 0)
		end("short", 2, 3) // another value for the same episode
		end("long", 1, 7)
		counts(1, 1)
		b.mu.Lock()
		if s := b.runs["m"].strata[0]; s.Candidate.Mean != 3 || s.Baseline.Mean != 7 {
			t.Errorf("the means are %v and %v, want 7 and 3", s.Baseline.Mean, s.Candidate.Mean)
		}
		b.mu.Unlock()
		begin("endless")
		pass(time.Millisecond)
		begin("next")
		end("next", 1, 1)
		counts(1, 1)
		pass(longest)
		counts(2, 1)
	})
}

// TestWaitingIsBounded: waiting outcomes are not forgotten with the window and are bounded in number, and a caller that
// reports too many learns of it and can report them again.
func TestWaitingIsBounded(t *testing.T) {
	var mu sync.Mutex // the manager asks from a goroutine of its own
	var held time.Time
	known := func(c *Config) {
		c.Unfinished = func(string, time.Time) map[int64][]time.Time {
			mu.Lock()
			defer mu.Unlock()
			if held.IsZero() {
				return nil
			}
			return map[int64][]time.Time{1: {held}}
		}
	}
	within(t, known, func(t *testing.T, b *bench) {
		b.start(t, func(p *Plan) { p.Automatic, p.Stages = false, []float64{10, 100} })
		mu.Lock()
		held = time.Now() // an episode that began before all others
		mu.Unlock()
		reward := map[string]float64{"reward": 1}
		for i := range maxWaiting {
			if got := b.Report("m", strconv.Itoa(i), 2, reward); got != nil {
				t.Fatalf("report %d: %+v", i, got)
			}
		}
		const last = maxWaiting - 1
		// needs no more room
		if got := b.Report("m", strconv.Itoa(last), 2, map[string]float64{"reward": 3}); got != nil {
			t.Errorf("reported again: %+v", got)
		}
		want := []NotKept{{
			"reward", TooManyWaiting,
			"20000 outcomes of the rollout wait for episodes that began before theirs: report it again later",
		}}
		if d := cmp.Diff(want, b.Report("m", "one more", 2, map[string]float64{"reward": 1, "falls": 1})); d != "" {
			t.Error(d)
		}
		count := func(n int64, mean float64) {
			t.Helper()
			mu.Lock()
			held = time.Time{}
			mu.Unlock()
			pass(2 * time.Second) // a look
			b.mu.Lock()
			defer b.mu.Unlock()
			if got := b.runs["m"].strata[0].Candidate; got.Count != n || math.Abs(got.Mean-mean) > 1e-12 {
				t.Errorf("%d episodes count, their mean is %v; want %d and %v", got.Count, got.Mean, n, mean)
			}
		}
		count(maxWaiting, 1+2./maxWaiting)
		if got := b.Report("m", "one more", 2, reward); got != nil {
			t.Errorf("there is room again: %+v", got)
		}
		count(maxWaiting+1, 1+2./(maxWaiting+1))
	})
}

func TestSampleOfComputeTimes(t *testing.T) {
	var c counter
	const n = 100 * sampleSize
	for i := range n {
		c.observe(answered(time.Duration(i)))
	}
	r := c.requests()
	_, mid, _ := p95(r.Compute)
	// The rank's standard error is 7 of 1000; five of them.
	if !slices.IsSorted(r.Compute) || r.Count != n || len(r.Compute) != sampleSize || mid < n*915/1000 ||
		mid > n*985/1000 {
		t.Errorf("of %d: %d in the sample, p95 %d", r.Count, len(r.Compute), mid)
	}
}

func BenchmarkObserve(b *testing.B) {
	h := newHost(1, 2)
	m := New(Config{Traffic: h})
	for b.Loop() {
		m.Observe("m", 1, answered(time.Millisecond))
	}
}

func BenchmarkObserveInRollout(b *testing.B) {
	m := New(Config{Traffic: newHost(1, 2)})
	if _, err := m.Start(Plan{Model: "m", BaselineVersion: 1, CandidateVersion: 2}, "somebody"); err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		m.Observe("m", 1, answered(time.Millisecond))
	}
}
