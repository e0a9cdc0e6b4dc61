package episode_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weftserve/weft/runtime/catalog"
	"github.com/weftserve/weft/runtime/tensor"
	"github.com/weftserve/weft/server/episode"
)

// bytesOf is a state of so many bytes.
func bytesOf(n int, value byte) tensor.Tensor {
	t := tensor.Tensor{DType: tensor.Uint8, Shape: tensor.Shape{1, int64(n)}, Data: make([]byte, n)}
	for i := range t.Data {
		t.Data[i] = value
	}
	return t
}

// version keeps an input of a varying size.
func version(number int64, change func(*catalog.EpisodeState)) *catalog.Version {
	spec := func(name string) tensor.Spec {
		return tensor.Spec{Name: name, DType: tensor.Uint8, Shape: tensor.Shape{tensor.Unknown, tensor.Unknown}}
	}
	v := &catalog.Version{
		Model: "m", Number: number,
		Signature: &tensor.Signature{Inputs: []tensor.Spec{spec("h")}, Outputs: []tensor.Spec{spec("hn")}},
		EpisodeState: &catalog.EpisodeState{
			Inputs: []catalog.StateInput{{Initial: bytesOf(8, 0)}}, MaxEpisodes: 1000, Idle: time.Minute,
		},
	}
	if change != nil {
		change(v.EpisodeState)
	}
	return v
}

// do does a step that gives a state of so many bytes, and returns what it began with: the value of all bytes. Shows are
// told of it when it was answered.
func do(t *testing.T, s *episode.Store, a *episode.Ask, gives int, value byte, last bool,
	shows ...func(episode.Mark),
) (before byte, err error) {
	turn, err := s.Enter(t.Context(), a)
	if err != nil || turn == nil {
		return 0, err
	}
	defer turn.Leave(nil)
	inputs := make([]tensor.Tensor, 1)
	turn.Fill(inputs)
	if gives == 0 { // it failed
		return inputs[0].Data[0], nil
	}
	err = turn.Commit(inputs, []tensor.Tensor{bytesOf(gives, value)}, nil, last)
	for _, show := range shows {
		show(turn.Mark())
	}
	return inputs[0].Data[0], err
}

func ask(name string, v *catalog.Version, begin bool) *episode.Ask {
	return &episode.Ask{Key: episode.Key{Model: "m", Episode: name}, Version: v, Begin: begin, Rows: 1}
}

// TestBounds: whatever episodes do, the states take no more than they may, nobody loses his state to another, and
// nothing stays when all have ended or are idle.
func TestBounds(t *testing.T) {
	const memory, most = 16000, 30
	for seed := range uint64(50) {
		synctest.Test(t, func(t *testing.T) {
			rng := rand.New(rand.NewPCG(seed, 9))
			s := episode.NewStore(episode.Config{Memory: memory})
			v := version(1, func(e *catalog.EpisodeState) { e.MaxEpisodes, e.Idle = most, time.Hour })
			has := map[string]byte{} // the state of each that lives
			full := 0
			for i := range 2000 {
				name := strconv.Itoa(rng.IntN(60))
				value, lives := has[name]
				gives, next := 1+rng.IntN(300), byte(1+i%250)
				switch rng.IntN(10) {
				case 0:
					gives = 0
				case 1:
					time.Sleep(time.Second)
				}
				begin, last := !lives && rng.IntN(10) > 0 || rng.IntN(30) == 0, rng.IntN(15) == 0
				before, err := do(t, s, ask(name, v, begin), gives, next, last)
				_, lost := errors.AsType[*episode.LostError](err)
				_, isFull := errors.AsType[*episode.FullError](err)
				switch {
				case err == nil && before != map[bool]byte{true: 0, false: value}[begin]:
					t.Fatalf("seed %d: episode %s began a step with %d, want %d", seed, name, before, value)
				case err == nil && gives > 0 && last:
					delete(has, name)
				case err == nil && gives > 0:
					has[name] = next
				case lost && (begin || lives), err != nil && !lost && !isFull:
					t.Fatalf("seed %d: %v", seed, err)
				case isFull:
					full++
				}
				if live, bytes := s.Of("m"); live != len(has) || bytes != s.Counts().Bytes {
					t.Fatalf("seed %d: %d episodes of the model with %d bytes, want %d, %+v", seed, live, bytes, len(has), s.Counts())
				}
				if c := s.Counts(); c.Bytes > memory || c.Live["m"] > most || c.Live["m"] != len(has) {
					t.Fatalf("seed %d: %+v, want %d episodes", seed, c, len(has))
				}
			}
			if full == 0 {
				t.Errorf("seed %d: no bound was reached", seed)
			}
			time.Sleep(2 * time.Hour)
			if c := s.Counts(); c.Bytes != 0 || len(c.Live) != 0 {
				t.Errorf("seed %d: in the end %+v", seed, c)
			}
		})
	}
}

// TestOtherVersion: an episode is lost, begins anew or goes on, as the settings say.
func TestOtherVersion(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for change, want := range map[catalog.StateChange]string{
			catalog.RefuseChange: "lost", catalog.ResetChange: "0", catalog.CarryChange: "5",
		} {
			s := episode.NewStore(episode.Config{Memory: 1 << 14})
			set := func(e *catalog.EpisodeState) { e.OnChange = change }
			if _, err := do(t, s, ask("e", version(1, set), true), 8, 5, false); err != nil {
				t.Fatal(err)
			}
			before, err := do(t, s, ask("e", version(2, set), false), 8, 6, true)
			got := strconv.Itoa(int(before))
			if _, lost := errors.AsType[*episode.LostError](err); lost {
				got = "lost"
			}
			if got != want {
				t.Errorf("change %d: %s (%v), want %s", change, got, err, want)
			}
		}
		time.Sleep(time.Hour)
	})
}

// TestEndOfAStream ends what was begun on it, and nothing else; the step under way leaves nothing.
func TestEndOfAStream(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := episode.NewStore(episode.Config{Memory: 1 << 14})
		v := version(1, func(e *catalog.EpisodeState) { e.OfStream = true })
		for name, stream := range map[string]int{"a": 1, "b": 1, "c": 2} {
			q := ask(name, v, true)
			q.Stream = stream
			if _, err := do(t, s, q, 8, 1, false); err != nil {
				t.Fatal(err)
			}
		}
		turn, err := s.Enter(t.Context(), ask("a", v, false))
		if err != nil {
			t.Fatal(err)
		}
		s.EndStream(1)
		if err := turn.Commit(make([]tensor.Tensor, 1), []tensor.Tensor{bytesOf(8, 2)}, nil, false); err != nil {
			t.Error(err)
		}
		turn.Leave(nil)
		ended := episode.Ending{Model: "m", Why: episode.WithStream}
		if c := s.Counts(); c.Live["m"] != 1 || c.Bytes != 8+512 || c.Ended[ended] != 2 {
			t.Errorf("there are %+v", c)
		}
		time.Sleep(time.Hour)
	})
}

// TestGivenUpInLine: who waits for a turn may go, and the others have theirs in order.
func TestGivenUpInLine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, v := episode.NewStore(episode.Config{Memory: 1 << 14}), version(1, nil)
		if _, err := do(t, s, ask("e", v, true), 8, 1, false); err != nil {
			t.Fatal(err)
		}
		turn, err := s.Enter(t.Context(), ask("e", v, false))
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		var order []byte
		for i := range byte(10) {
			go func() {
				if i%3 == 0 {
					if _, err := s.Enter(ctx, ask("e", v, false)); !errors.Is(err, context.DeadlineExceeded) {
						t.Errorf("one that goes: %v", err)
					}
					return
				}
				turn, err := s.Enter(t.Context(), ask("e", v, false))
				if err != nil {
					t.Error(err)
					return
				}
				inputs := make([]tensor.Tensor, 1)
				turn.Fill(inputs)
				order = append(order, inputs[0].Data[0])
				if err := turn.Commit(inputs, []tensor.Tensor{bytesOf(8, i)}, nil, false); err != nil {
					t.Error(err)
				}
				turn.Leave(nil)
			}()
			synctest.Wait()
		}
		time.Sleep(2 * time.Second)
		turn.Leave(nil)
		synctest.Wait()
		if string(order) != "\x01\x01\x02\x04\x05\x07" {
			t.Errorf("they began with %q", order)
		}
		time.Sleep(time.Hour)
	})
}

// TestControls: the model is told of the beginning, the end, and the name.
func TestControls(t *testing.T) {
	v := version(1, func(e *catalog.EpisodeState) {
		e.Controls = []catalog.StateControl{
			{Input: 1},
			{Input: 2, Kind: catalog.EndControl},
			{Input: 3, Kind: catalog.ReadyControl},
			{Input: 4, Kind: catalog.IDControl},
		}
	})
	for range v.EpisodeState.Controls {
		v.Signature.Inputs = append(v.Signature.Inputs, tensor.Spec{DType: tensor.Uint8, Shape: tensor.Shape{tensor.Unknown}})
	}
	s := episode.NewStore(episode.Config{Memory: 1 << 14})
	for i, want := range []string{"\x01\x00\x01\x07", "\x00\x00\x01\x07", "\x00\x01\x01\x07"} {
		q := ask("7", v, i == 0)
		q.Last = i == 2
		turn, err := s.Enter(t.Context(), q)
		if err != nil {
			t.Fatal(err)
		}
		inputs := make([]tensor.Tensor, 5)
		err = turn.Fill(inputs)
		var got []byte
		for _, in := range inputs[1:] {
			got = append(got, in.Data...)
		}
		if err != nil || string(got) != want {
			t.Errorf("step %d: %q, %v; want %q", i, got, err, want)
		}
		if err := turn.Commit(inputs, []tensor.Tensor{bytesOf(8, 2)}, nil, q.Last); err != nil {
			t.Error(err)
		}
		turn.Leave(nil)
	}
	turn, err := s.Enter(t.Context(), ask("robot", v, true))
	if err != nil {
		t.Fatal(err)
	}
	if err := turn.Fill(make([]tensor.Tensor, 5)); err == nil || !strings.Contains(err.Error(), `got "robot"`) {
		t.Errorf("a name that is no number: %v", err)
	}
	turn.Leave(nil)
}

// TestLateWords: what comes late is of the episode before, and neither ends nor begins one anew.
func TestLateWords(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := episode.NewStore(episode.Config{Memory: 1 << 14})
		v := version(1, func(e *catalog.EpisodeState) { e.OfStream = true })
		step := func(stream int, begin bool, number uint64, meanwhile func()) (before byte, kept bool, err error) {
			q := ask("e", v, begin)
			q.Stream, q.Step = stream, number
			turn, err := s.Enter(t.Context(), q)
			if err != nil {
				return 0, false, err
			}
			defer turn.Leave(nil)
			if turn.Kept != nil {
				return 0, true, nil
			}
			inputs := make([]tensor.Tensor, 1)
			err = turn.Fill(inputs)
			if meanwhile != nil {
				meanwhile()
			}
			answer := &episode.Answer{Version: v}
			return inputs[0].Data[0], false, errors.Join(err,
				turn.Commit(inputs, []tensor.Tensor{bytesOf(8, byte(number))}, answer, false))
		}
		for i, c := range []struct {
			stream    int
			begin     bool
			number    uint64
			meanwhile func()
			before    byte
			stale     bool
		}{
			{1, true, 1, nil, 0, false},
			{2, true, 2, func() { s.EndStream(1) }, 0, false}, // a client that has connected again
			{2, false, 3, nil, 2, false},
			{2, true, 4, func() { s.End(ask("e", v, false).Key) }, 0, false}, // a report of the one before
			{2, false, 5, nil, 4, false},
			{2, true, 3, nil, 0, true}, // a late copy of a first request
			{2, false, 6, func() { s.EndStream(2) }, 5, false},
			{3, true, 6, nil, 0, false},
		} {
			before, kept, err := step(c.stream, c.begin, c.number, c.meanwhile)
			_, stale := errors.AsType[*episode.StaleError](err)
			if stale != c.stale || !stale && err != nil || kept || before != c.before {
				t.Errorf("%d: began with %d, kept %v, %v", i, before, kept, err)
			}
		}
		s.EndStream(3)
		if _, kept, err := step(4, true, 6, nil); kept || err != nil {
			t.Errorf("on another stream comes the answer of the one before: %v", err)
		}
		vast := ask("vast", v, true)
		vast.Rows = 1 << 20
		if _, err := s.Enter(t.Context(), vast); err == nil {
			t.Error("there is room for what is larger than all")
		}
		if _, kept, err := step(4, true, 6, nil); !kept {
			t.Errorf("an answer went for what has no room anyway: %v", err)
		}
		time.Sleep(time.Hour)
	})
}
