package episode_test

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/weftserve/weft/runtime/catalog"
	"github.com/weftserve/weft/runtime/tensor"
	"github.com/weftserve/weft/server/episode"
)

// TestShadowsTakeNoRoom: whatever shadows do, and however late, episodes fare as they do without them. A shadow that
// does a step begins it with the state that it gave in the step before.
func TestShadowsTakeNoRoom(t *testing.T) {
	for seed := range uint64(30) {
		synctest.Test(t, func(t *testing.T) {
			rng := rand.New(rand.NewPCG(seed, 10))
			config := episode.Config{Memory: 16000}
			s, without := episode.NewStore(config), episode.NewStore(config)
			set := func(e *catalog.EpisodeState) { e.MaxEpisodes, e.Idle = 30, time.Hour }
			v, shadows := version(1, set), []*catalog.Version{version(2, set), version(3, set)}
			var done atomic.Int64
			missed, most := 0, int64(0)
			latest := map[string]byte{} // the state of each episode
			for i := range 2000 {
				name := strconv.Itoa(rng.IntN(50))
				a := ask(name, v, rng.IntN(8) == 0)
				gives, value, last := rng.IntN(150), byte(1+i%250), rng.IntN(15) == 0
				want := latest[name]
				if a.Begin {
					want = 0
				}
				show := func(m episode.Mark) {
					for _, v := range shadows {
						after := time.Duration(rng.IntN(5)) * time.Second
						step := s.Shadow(a.Key, v, m)
						if step == nil {
							missed++
							continue
						}
						fails := rng.IntN(20) == 0
						go func() {
							defer step.Leave()
							inputs := make([]tensor.Tensor, 1)
							if step.Enter(t.Context(), inputs, 1, nil) != nil {
								return
							}
							if got := inputs[0].Data[0]; got != want {
								t.Errorf("seed %d: a shadow began a step with %d, want %d", seed, got, want)
							}
							time.Sleep(after)
							if done.Add(1); !fails {
								step.Commit(inputs, []tensor.Tensor{bytesOf(1+gives, value)})
							}
						}()
					}
				}
				before, err := do(t, s, a, gives, value, last, show)
				beforeAlone, errAlone := do(t, without, a, gives, value, last)
				if before != beforeAlone || fmt.Sprint(err) != fmt.Sprint(errAlone) {
					t.Fatalf("seed %d: %d, %v; without shadows %d, %v", seed, before, err, beforeAlone, errAlone)
				}
				if err == nil && gives > 0 {
					latest[name] = value
				}
				c, alone := s.Counts(), without.Counts()
				if most = max(most, c.Spare); c.Bytes > config.Memory {
					t.Fatalf("seed %d: %+v", seed, c)
				}
				c.Bytes, c.Spare = c.Bytes-c.Spare, 0
				if diff := cmp.Diff(alone, c); diff != "" {
					t.Fatalf("seed %d: (-without shadows +with)\n%s", seed, diff)
				}
				if rng.IntN(4) == 0 {
					time.Sleep(time.Second)
				}
			}
			if done.Load() < 20 || missed < 100 || most < 2000 {
				t.Errorf("seed %d: shadows did %d steps, missed %d and had %d bytes", seed, done.Load(), missed, most)
			}
			time.Sleep(2 * time.Hour)
			if c := s.Counts(); c.Bytes != 0 || c.Spare != 0 {
				t.Errorf("seed %d: in the end %+v", seed, c)
			}
		})
	}
}

// TestShadowByNumbers: where only the caller's numbers say which step it is, a shadow ends when it is idle, and when it
// did not do a step.
func TestShadowByNumbers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := episode.NewStore(episode.Config{Memory: 1 << 14})
		do := func(m episode.Mark, rows int, gives ...tensor.Tensor) (kept int64) {
			step := s.Shadow(episode.Key{Model: "m", Episode: "e"}, version(1, nil), m)
			inputs := make([]tensor.Tensor, 1)
			if step == nil {
				return -1
			} else if err := step.Enter(t.Context(), inputs, rows, nil); err == nil && gives != nil {
				step.Commit(inputs, gives)
			}
			step.Leave()
			return s.Counts().Spare
		}
		one, two, three := bytesOf(8, 1), episode.Numbered(2, false, false), episode.Numbered(3, false, false)
		for name, c := range map[string]struct {
			then func() int64
			want int64
		}{
			"after some time":    {func() int64 { time.Sleep(50 * time.Second); return do(two, 1, one) }, 8 + 512},
			"idle":               {func() int64 { time.Sleep(62 * time.Second); return s.Counts().Bytes }, 0},
			"not done":           {func() int64 { return do(two, 1) }, 0},
			"of other rows":      {func() int64 { return do(two, 2, one) }, 0},
			"left out":           {func() int64 { return do(three, 1, one) + 1 + s.Counts().Bytes }, 0},
			"begun anew":         {func() int64 { return do(episode.Numbered(9, true, false), 2, one) }, 8 + 512},
			"without a number":   {func() int64 { return do(episode.Numbered(0, false, false), 1, one) }, -1},
			"the last":           {func() int64 { return do(episode.Numbered(2, false, true), 1, one) }, 0},
			"begun and not done": {func() int64 { return do(episode.Numbered(9, true, false), 1) }, 0},
		} {
			do(episode.Numbered(1, true, false), 1, one)
			if got := c.then(); got != c.want {
				t.Errorf("%s: %d, want %d", name, got, c.want)
			}
			time.Sleep(time.Hour)
			if c := s.Counts(); c.Bytes != 0 {
				t.Errorf("%s: in the end %+v", name, c)
			}
		}
	})
}

// TestShadowEndsWithItsEpisode, also if it was not shown the end.
func TestShadowEndsWithItsEpisode(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := episode.NewStore(episode.Config{Memory: 1 << 14})
		v := version(1, func(e *catalog.EpisodeState) { e.OfStream = true })
		for name, end := range map[string]func() error{
			"last step": func() error { _, err := do(t, s, ask("e", v, false), 8, 1, true); return err },
			"stream":    func() error { s.EndStream(1); return nil },
			"idle":      func() error { time.Sleep(62 * time.Second); return nil },
		} {
			q := ask("e", v, true)
			q.Stream = 1
			_, err := do(t, s, q, 8, 1, false, func(m episode.Mark) {
				other := version(2, func(e *catalog.EpisodeState) { e.Idle = time.Hour })
				step, inputs := s.Shadow(q.Key, other, m), make([]tensor.Tensor, 1)
				if err := step.Enter(t.Context(), inputs, 1, nil); err != nil {
					t.Error(err)
				}
				step.Commit(inputs, []tensor.Tensor{bytesOf(8, 1)})
				step.Leave()
			})
			before := s.Counts().Spare
			if err := end(); err != nil {
				t.Error(err)
			}
			if got := s.Counts().Bytes; err != nil || before != 8+512 || got != 0 {
				t.Errorf("%s: %d bytes of the shadow, in the end %d, %v", name, before, got, err)
			}
		}
		time.Sleep(2 * time.Hour)
	})
}
