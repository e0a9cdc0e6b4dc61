package main

import (
	"bufio"
	"context"
	"errors"
	"io"
	"testing"
	"testing/synctest"
	"time"
)

// repeated returns how often an operation is done within ten seconds at 300 a second, and the most within a hundredth.
func repeated(t *testing.T, most int, do operation) (done, burst int) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		l := &link{tally: &tally{}, out: bufio.NewWriter(io.Discard), gone: make(chan struct{})}
		var latest time.Time
		within := 0
		err := l.repeat(ctx, 300, most, func(ctx context.Context) error {
			if now := time.Now(); now.Sub(latest) >= 10*time.Millisecond {
				latest, within = now, 0
			}
			within++
			burst = max(burst, within)
			return do(ctx)
		})
		if err != nil {
			t.Error(err)
		}
		done = int(l.tally.done.Load())
	})
	return done, burst
}

// TestRepeat: an attack keeps to its rate and its number, and one who was held up does not flood to make up for it.
func TestRepeat(t *testing.T) {
	nothing := func(context.Context) error { return nil }
	if done, burst := repeated(t, 0, nothing); done < 2990 || done > 3001 || burst > 4 {
		t.Errorf("it was done %d times, %d within a hundredth of a second", done, burst)
	}
	if done, _ := repeated(t, 7, nothing); done != 7 {
		t.Errorf("it was done %d times of 7", done)
	}
	stalled := false
	done, burst := repeated(t, 0, func(context.Context) error {
		if !stalled {
			stalled = true
			time.Sleep(5 * time.Second)
		}
		return nil
	})
	if done < 2900 || done > 3001 || burst > 2*31 { // a tick waits for it
		t.Errorf("after a stall it was done %d times, %d within a hundredth of a second", done, burst)
	}
}

// TestRepeatEnds when the server ends the connection, and says so.
func TestRepeatEnds(t *testing.T) {
	l := &link{tally: &tally{}, out: bufio.NewWriter(io.Discard), gone: make(chan struct{})}
	close(l.gone)
	err := l.repeat(t.Context(), 1, 0, func(context.Context) error { return nil })
	if !errors.Is(err, errGone) {
		t.Errorf("the error is %v", err)
	}
}
