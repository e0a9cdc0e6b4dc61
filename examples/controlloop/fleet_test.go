package main

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/weftserve/weft/examples/plant"
)

// recorder is a machine that never fails and remembers its seeds and actions.
type recorder struct {
	seeds   []uint64
	actions []float32
	step    float32
}

func (r *recorder) Reset(seed uint64) []float32 {
	r.seeds = append(r.seeds, seed)
	r.step = 1
	return []float32{r.step}
}

func (r *recorder) Step(action []float32) ([]float32, float64, bool) {
	r.actions = append(r.actions, action[0])
	r.step++
	return []float32{r.step}, 1, false
}

// recorders returns a kind whose machines end in the list.
func recorders() (plant.Kind, func() []*recorder) {
	var mu sync.Mutex
	var made []*recorder
	kind := plant.Kind{Name: "recorder", ObservationSize: 1, ActionSize: 1, MaxSteps: 5}
	kind.New = func() plant.Plant {
		mu.Lock()
		defer mu.Unlock()
		made = append(made, &recorder{})
		return made[len(made)-1]
	}
	return kind, func() []*recorder { return made }
}

const period = 20 * time.Millisecond

func testOptions() options {
	return options{hz: 50, episodes: 1, versions: []version{""}, deadline: period, seed: 7}
}

func TestLateAndFailedCallsHoldThePreviousAction(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		kind, made := recorders()
		f := newFleet(testOptions(), kind, func(ctx context.Context, o observation) answer {
			switch step := o.values[0]; step {
			case 1, 3:
				<-ctx.Done()
				return answer{outcome: late, err: ctx.Err()}
			case 4:
				return answer{outcome: failed, err: errors.New("broken")}
			default:
				return answer{action: []float32{step}, version: 1, rows: 4}
			}
		})
		episodes := f.run(t.Context())

		if diff := cmp.Diff([]float32{0, 2, 2, 2, 5}, made()[0].actions); diff != "" {
			t.Errorf("actions (-want +got):\n%s", diff)
		}
		e := episodes[0]
		if diff := cmp.Diff([...]int{answered: 2, late: 2, refused: 0, failed: 1}, e.calls); diff != "" {
			t.Errorf("calls by outcome (-want +got):\n%s", diff)
		}
		if !e.finished || e.sum != 5 || e.rows != 8 || e.behind != 0 || e.firstErr == nil {
			t.Errorf("episode %+v; want a finished one with return 5, 8 rows and an error", e)
		}
	})
}

// call is when a call came, after the start, and how much time it had.
type call struct {
	at, left time.Duration
	last     bool
}

// calls runs a fleet whose calls take a given time, whatever their deadline.
func calls(t *testing.T, o options, take time.Duration) ([]call, []*episode) {
	t.Helper()
	kind, _ := recorders()
	var mu sync.Mutex
	var seen []call
	start := time.Now()
	f := newFleet(o, kind, func(ctx context.Context, o observation) answer {
		deadline, _ := ctx.Deadline()
		mu.Lock()
		seen = append(seen, call{time.Since(start), time.Until(deadline), o.last})
		mu.Unlock()
		time.Sleep(take) // virtual time
		return answer{action: []float32{0}, latency: take, version: 1}
	})
	episodes := f.run(t.Context())
	slices.SortFunc(seen, func(a, b call) int { return int(a.at - b.at) })
	return seen, episodes
}

func TestRateDoesNotDependOnTheAnswers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := testOptions()
		o.steps, o.deadline = 3, 8*time.Millisecond
		got, _ := calls(t, o, 19*time.Millisecond)
		want := []call{
			{at: 0, left: o.deadline},
			{at: period, left: o.deadline},
			{at: 2 * period, left: o.deadline, last: true},
		}
		if diff := cmp.Diff(want, got, cmp.AllowUnexported(call{})); diff != "" {
			t.Errorf("calls (-want +got):\n%s", diff)
		}
	})
}

func TestMachinesAreSpreadOverThePeriod(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := testOptions()
		o.steps, o.episodes = 1, 4
		at := func() (at []time.Duration) {
			seen, _ := calls(t, o, 0)
			for _, c := range seen {
				at = append(at, c.at)
			}
			return at
		}
		if diff := cmp.Diff([]time.Duration{0, period / 4, period / 2, 3 * period / 4}, at()); diff != "" {
			t.Errorf("first calls (-want +got):\n%s", diff)
		}
		o.lockstep = true
		if diff := cmp.Diff([]time.Duration{0, 0, 0, 0}, at()); diff != "" {
			t.Errorf("first calls in lockstep (-want +got):\n%s", diff)
		}
	})
}

// TestWorldMovesOnWhenTheClientIsSlow blocks each call for two and a half periods, as a starved client would be.
func TestWorldMovesOnWhenTheClientIsSlow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := testOptions()
		o.steps = 3
		got, episodes := calls(t, o, 5*period/2)
		want := []call{
			{at: 0, left: period},
			{at: 5 * period / 2, left: -period / 2},
			{at: 5 * period, left: -2 * period, last: true},
		}
		if diff := cmp.Diff(want, got, cmp.AllowUnexported(call{})); diff != "" {
			t.Errorf("calls (-want +got):\n%s", diff)
		}
		if episodes[0].behind != 2 {
			t.Errorf("%d periods began too late, want 2", episodes[0].behind)
		}
	})
}

func TestVersionsPlayTheSameEpisodes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		kind, made := recorders()
		o := testOptions()
		o.versions, o.episodes, o.steps, o.lockstep = []version{"1", "2"}, 4, 1, true
		o.duration = period // one more round for each
		var mu sync.Mutex
		seeds := map[version][]uint64{}
		names := map[string]bool{}
		f := newFleet(o, kind, func(_ context.Context, o observation) answer {
			mu.Lock()
			defer mu.Unlock()
			names[o.episode] = true
			return answer{action: []float32{0}}
		})
		for _, e := range f.run(t.Context()) {
			seeds[e.wish] = append(seeds[e.wish], e.seed)
		}
		for _, s := range seeds {
			slices.Sort(s)
		}
		want := map[version][]uint64{"1": {7, 8, 9, 10}, "2": {7, 8, 9, 10}}
		if diff := cmp.Diff(want, seeds); diff != "" {
			t.Errorf("seeds by version (-want +got):\n%s", diff)
		}
		if len(names) != 8 || len(made()) != 8 {
			t.Errorf("%d episode names and %d machines for 8 episodes", len(names), len(made()))
		}
	})
}

func TestInterruptCutsEpisodesShort(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		kind, made := recorders()
		ctx, cancel := context.WithTimeout(t.Context(), 5*period/2)
		defer cancel()
		o := testOptions()
		o.duration = time.Hour
		episodes := newFleet(o, kind, func(context.Context, observation) answer {
			return answer{action: []float32{0}}
		}).run(ctx)
		if len(episodes) != 1 || episodes[0].finished || len(made()[0].actions) != 3 {
			t.Errorf("%d episodes, the first %+v; want one that was cut short after 3 steps", len(episodes),
				episodes[0])
		}
	})
}
