package shell

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weftserve/weft/sharedsched"
	"github.com/weftserve/weft/sharedsched/trace"
)

// TestExpel: waiting tasks end at once, running ones are finished, another version of the device goes on, and a replay
// decides the same.
func TestExpel(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var recorded bytes.Buffer
		written := bufio.NewWriter(&recorded)
		s, err := New(sharedsched.Config{Devices: []sharedsched.Device{{Name: "d", Class: "d", Lanes: 1}}},
			&curve{base: 10 * time.Millisecond}, Options{Trace: written})
		if err != nil {
			t.Fatal(err)
		}
		f, err := s.AddFlow("f", "d", 1)
		if err != nil {
			t.Fatal(err)
		}
		var versions [2]sharedsched.VersionID
		for i, name := range []string{"m/1", "m/2"} {
			settings := batched()
			settings.MaxQueue, settings.WaitWhenFull = 3, i == 0
			if versions[i], err = s.AddVersion(name, f, settings); err != nil {
				t.Fatal(err)
			}
		}
		lost, other := versions[0], versions[1]

		var callers sync.WaitGroup
		begin := time.Now()
		submit := func(v sharedsched.VersionID, want error, after time.Duration) {
			callers.Go(func() {
				if _, err := s.Do(t.Context(), v, &sharedsched.Task{Rows: 1}); !errors.Is(err, want) || time.Since(begin) != after {
					t.Errorf("version %d: %v after %v, want %v after %v", v, err, time.Since(begin), want, after)
				}
			})
			synctest.Wait()
		}
		submit(lost, nil, 10*time.Millisecond) // runs
		submit(other, nil, 20*time.Millisecond)
		for range 3 + 2 { // two of them wait for room
			submit(lost, sharedsched.ErrRemoved, time.Millisecond)
		}
		time.Sleep(time.Millisecond)
		s.Expel(lost)
		s.Expel(lost)
		synctest.Wait()
		submit(lost, sharedsched.ErrRemoved, time.Millisecond)
		if err := s.RemoveVersion(t.Context(), lost); err != nil || time.Since(begin) != 10*time.Millisecond {
			t.Errorf("the last batch ended after %v, %v", time.Since(begin), err)
		}
		callers.Wait()
		s.Expel(lost) // it is gone: nothing happens

		if err := s.Drain(context.Background()); err != nil {
			t.Error(err)
		}
		s.Close()
		if err := written.Flush(); err != nil {
			t.Fatal(err)
		}
		if sum, err := trace.Replay(&recorded); err != nil || sum.Tasks != 5 {
			t.Errorf("the replay of %d tasks, want 5: %v", sum.Tasks, err)
		}
	})
}
