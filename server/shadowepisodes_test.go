package server_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/weftserve/weft/runtime/catalog"
	"github.com/weftserve/weft/runtime/tensor"
	"github.com/weftserve/weft/server"
	"github.com/weftserve/weft/server/episode"
	"github.com/weftserve/weft/server/servertest"
	"github.com/weftserve/weft/server/shadow"
	"github.com/weftserve/weft/sharedsched"
)

// other is version 2 of recurrent, with other tensors: a window of the last two y, the state g, and x and seen.
func other() *catalog.Version {
	v := recurrent(2)
	in := v.Signature.Inputs
	g, gn, last := in[0], in[0], in[1]
	g.Name, gn.Name, last.Name = "g", "gn", "last"
	v.Signature = &tensor.Signature{
		Inputs: []tensor.Spec{last, g, in[0], in[4]}, Outputs: []tensor.Spec{gn, v.Signature.Outputs[0]},
	}
	v.EpisodeState = &catalog.EpisodeState{
		Inputs: []catalog.StateInput{
			{Input: 0, Output: 1, Window: 2, Initial: ints(tensor.Shape{1, 2}, 3, 4)},
			{Input: 1, Output: 0, Initial: ints(tensor.Shape{1, 1}, 9)},
			{Input: 3, Output: -1, Window: 2, Of: 3, Initial: ints(tensor.Shape{1, 2}, 1, 2)},
		},
		MaxEpisodes: 1, Idle: time.Hour, // the bound is for episodes of callers
	}
	return v
}

// stateless is version 3, with what the caller brings and y only.
func stateless() *catalog.Version {
	v := recurrent(3)
	v.EpisodeState = nil
	x, seen := v.Signature.Inputs[0], v.Signature.Inputs[0]
	seen.Name = "seen"
	v.Signature = &tensor.Signature{Inputs: []tensor.Spec{x, seen}, Outputs: v.Signature.Outputs[:1]}
	return v
}

// otherMemory is what version 2 keeps.
type otherMemory struct{ g, before, last, seen int64 }

func otherBegun() otherMemory { return otherMemory{9, 3, 4, 2} }

func (m *otherMemory) next(x int64) (y int64) {
	m.g = m.g*41 + x
	y = m.g ^ m.before*3 + m.last*5 + m.seen*7
	m.before, m.last, m.seen = m.last, y, x
	return y
}

// runOther is Models.Predict of versions 2 and 3, of one row.
func runOther(call *catalog.Call) (x, y int64) {
	if call.Version.Number == 3 {
		x = intsOf(call.Inputs[0].Data)[0]
		call.Results = []tensor.Tensor{ints(tensor.Shape{1, 1}, 5*x)}
		return x, 5 * x
	}
	last := intsOf(call.Inputs[0].Data)
	m := otherMemory{intsOf(call.Inputs[1].Data)[0], last[0], last[1], intsOf(call.Inputs[3].Data)[0]}
	x = intsOf(call.Inputs[2].Data)[0]
	y = m.next(x)
	for _, o := range call.Wanted {
		call.Results = append(call.Results, ints(tensor.Shape{1, 1}, []int64{m.g, y}[o]))
	}
	return x, y
}

// shadowed is a house in which version 2 and 3 are shown what another version answers.
type shadowed struct {
	*servertest.House
	store  *episode.Store
	mirror *shadow.Mirror
}

type modelsFunc func(context.Context, *catalog.Call) error

func (f modelsFunc) Predict(ctx context.Context, call *catalog.Call) error { return f(ctx, call) }

func newShadowed(t *testing.T, memory int64, pending int) *shadowed {
	s := &shadowed{store: episode.NewStore(episode.Config{Memory: memory})}
	s.mirror = shadow.New(shadow.Config{
		MaxPending: pending, Logger: slog.New(slog.DiscardHandler),
		Models: modelsFunc(func(ctx context.Context, call *catalog.Call) error { return s.Run(ctx, call) }),
	})
	s.House = servertest.New(t, server.Config{Episodes: s.store, Shadows: s.mirror, MaxMessageBytes: 4096})
	return s
}

// show has a version answer, and the others in its shadow.
func (s *shadowed) show(revision uint64, answers int64, states ...catalog.State) {
	all := []*catalog.Version{recurrent(1), other(), stateless()}
	for i, state := range states {
		all[i+1].State = state
	}
	s.Current.Store(servertest.SnapshotOf(revision, &catalog.Model{
		Name: "gru", Versions: all,
		Traffic: &catalog.Traffic{
			Revision: 1, Split: []catalog.Slot{{Name: "a", Version: answers, Weight: 1}},
			Shadow: []catalog.Shadow{{Version: 2, Sample: 1}, {Version: 3, Sample: 1}},
		},
	}))
}

// compared waits for the shadows, and returns how those of a version did.
func (s *shadowed) compared(t *testing.T, version int64) shadow.Summary {
	t.Helper()
	if err := s.mirror.Close(t.Context()); err != nil {
		t.Error(err)
	}
	for _, one := range s.mirror.Summaries("gru", shadow.Detail{}) {
		if len(one.Outputs) > 0 && (len(one.Outputs) != 1 || one.Outputs[0].Name != "y") {
			t.Errorf("not only what the caller got is compared: %+v", one.Outputs)
		}
		if one.Offered != one.Done+one.Dropped+one.Failed || slices.Contains(one.Failures, shadow.ErrMissed.Error()) {
			t.Errorf("it does not add up: %+v", one)
		}
		if one.ShadowVersion == version {
			return one
		}
	}
	t.Fatalf("version %d was shown nothing", version)
	return shadow.Summary{}
}

// TestShadowsOfEpisodes has many episodes step at once, with all that happens to them and to their shadows: each answer
// of a shadow is that of its version alone, to all steps since the episode began. Callers lose no room to shadows,
// which leave nothing behind.
func TestShadowsOfEpisodes(t *testing.T) {
	const robots, each = 12, 600 // an episode takes as many bytes at most
	for name, c := range map[string]struct {
		memory        int64
		pending       int
		trouble, undo bool
	}{
		"quiet":       {1 << 20, 1 << 20, false, false},
		"trouble":     {1 << 20, robots / 2, true, true},
		"little room": {robots*each + robots/2*each, robots / 2, true, false},
		"no room":     {robots * each, 1 << 20, false, false},
	} {
		t.Run(name, func(t *testing.T) {
			h := newShadowed(t, c.memory, c.pending)
			steps := h.play(t, robots, c.trouble, c.undo)
			two, three := h.compared(t, 2), h.compared(t, 3)
			n := func(s shadow.Summary) [4]int64 { return [4]int64{s.Done, s.Dropped, s.Failed, s.Skipped} }
			switch {
			case name == "quiet" && (n(two) != [4]int64{steps} || n(three) != [4]int64{steps}):
				t.Errorf("of %d steps %v are compared, and %v", steps, n(two), n(three))
			case !c.undo && two.Offered+two.Skipped != steps:
				t.Errorf("of %d steps: %v", steps, n(two))
			case c.trouble && min(two.Done, two.Dropped, two.Skipped) == 0:
				t.Errorf("there is too little of something: %v", n(two))
			}
			for _, e := range h.Events() {
				if e.Reason == "EPISODES_FULL" {
					t.Fatal("there was no room for a caller's episode")
				}
			}
			if got := h.store.Counts(); len(got.Live) != 0 || got.Spare != 0 || got.Bytes > robots*each {
				t.Errorf("in the end there are %+v", got)
			}
		})
	}
}

// play has robots do episodes, and returns how many steps there were. trouble: versions fail and go, and undo: answers
// are lost after the step.
func (s *shadowed) play(t *testing.T, robots int, trouble, undo bool) (steps int64) {
	var mu sync.Mutex
	alone, revision := map[int64]int64{}, uint64(1) // what version 2 gives, by x
	s.show(revision, 1)
	rng := rand.New(rand.NewPCG(1, 42))
	s.Run = func(_ context.Context, call *catalog.Call) error {
		mu.Lock()
		defer mu.Unlock()
		luck := 100
		if trouble {
			luck = rng.IntN(100)
		}
		if call.Shadow {
			if x, y := runOther(call); call.Version.Number == 2 && y != alone[x] {
				t.Errorf("the shadow gives %d for %d, alone %d", y, x, alone[x])
			}
			switch {
			case luck < 2:
				return errors.New("something of its own")
			case luck < 4:
				return sharedsched.ErrExpired
			case luck < 5:
				call.Results = nil
			}
			return nil
		}
		runRecurrent(call)
		switch {
		case luck < 5:
			return &sharedsched.Refusal{Reason: sharedsched.RefusedQueueFull}
		case luck < 6 && undo: // no message may be as large
			call.Results[0] = ints(tensor.Shape{1000, 1}, make([]int64, 1000)...)
		case luck < 20:
			revision++
			s.show(revision, 1, []catalog.State{catalog.Ready, catalog.Unloading}[rng.IntN(16)/15])
		}
		return nil
	}
	var all sync.WaitGroup
	for e := range robots {
		all.Go(func() {
			var m otherMemory
			tell := func(begins bool, x int64) {
				if begins {
					m = otherBegun()
				}
				mu.Lock()
				defer mu.Unlock()
				steps++
				alone[x] = m.next(x)
			}
			name, rng := fmt.Sprint("robot ", e), rand.New(rand.NewPCG(uint64(e), 42))
			for range 2 {
				episodeOf(t, s.House, name, rng, tell)
				x := rng.Int64N(1 << 40)
				q := observe(name, 1000, x)
				q.EndOfEpisode = true
				tell(false, x)
				for tries := 0; ; tries++ {
					if _, err := s.Predictions.Predict(t.Context(), q); err == nil {
						break
					} else if tries == 100 {
						t.Error(err)
						return
					}
				}
			}
		})
	}
	all.Wait()
	return steps
}

// TestShadowOfAStatelessVersion: the numbers of steps say whether one was missed, and a retry of one is none.
func TestShadowOfAStatelessVersion(t *testing.T) {
	h := newShadowed(t, 1<<20, 100)
	h.show(1, 3)
	steps := []struct {
		number uint64
		done   bool
	}{{1, true}, {2, true}, {2, false}, {3, true}, {5, false}, {6, false}, {0, false}, {1, true}, {2, true}}
	var m otherMemory
	alone := make([]int64, len(steps)) // by x
	for x, s := range steps {
		if s.number == 1 {
			m = otherBegun()
		}
		if s.done {
			alone[x] = m.next(int64(x))
		}
	}
	h.Run = func(_ context.Context, call *catalog.Call) error {
		if x, y := runOther(call); call.Shadow && y != alone[x] {
			t.Errorf("the shadow gives %d for %d, alone %d", y, x, alone[x])
		}
		return nil
	}
	for x, s := range steps {
		q := observe("e", s.number, int64(x))
		q.BeginEpisode, q.EndOfEpisode = s.number == 1, x == len(steps)-1
		if _, err := h.Predictions.Predict(t.Context(), q); err != nil {
			t.Fatal(err)
		}
	}
	if got := h.compared(t, 2); got.Done != 5 || got.Skipped != 4 || h.store.Counts().Bytes != 0 {
		t.Errorf("%+v, and there are %+v", got, h.store.Counts())
	}
}
