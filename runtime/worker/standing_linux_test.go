package worker

import (
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weftserve/weft/runtime/engine"
)

// TestACrashLoopIsDown: a session is down while its processes die again and again, though each is replaced at once,
// until one has been there for a second. A second death soon after the first is no loop.
func TestACrashLoopIsDown(t *testing.T) {
	const restart, lives = 50 * time.Millisecond, 350 * time.Millisecond
	synctest.Test(t, func(t *testing.T) {
		var down atomic.Bool // when somebody was told to look last
		s := &Session{}
		s.worker = &Worker{changed: make(chan struct{}), pool: &Pool{cfg: Config{
			Changed: func() { down.Store(!s.standing().Down.IsZero()) },
		}}}
		start := func() {
			time.Sleep(restart)
			p := &process{ended: make(chan struct{}), cause: &DeathError{Text: "SIGFPE"}}
			s.life.Store(openLife(p))
			s.worker.mu.Lock()
			defer s.worker.mu.Unlock()
			s.worker.setLocked(p)
		}
		die := func() {
			time.Sleep(lives)
			close(s.worker.process.ended)
			s.worker.mu.Lock()
			defer s.worker.mu.Unlock()
			s.worker.setLocked(nil)
		}
		start()
		for range 2 { // the second loop begins anew
			time.Sleep(time.Minute)
			since := time.Now().Add(lives)
			for deaths := 1; deaths <= 6; deaths++ {
				die()
				if at := s.standing().Down; !at.Equal(since) {
					t.Errorf("without a process after %d deaths: down since %v, want %v", deaths, at, since)
				}
				span := time.Since(since)
				start()
				synctest.Wait()
				if looping, at := span >= time.Second, s.standing().Down; at.IsZero() == looping ||
					looping && !at.Equal(since) || down.Load() != looping {
					t.Errorf("after %d deaths within %v: down since %v, want %v: %t", deaths, span, at, since, looping)
				}
			}
			time.Sleep(steadyTime - 1)
			if s.standing().Down.IsZero() {
				t.Error("it is up before a process has been there for a second")
			}
			time.Sleep(time.Nanosecond)
			synctest.Wait()
			if at := s.standing().Down; !at.IsZero() || down.Load() {
				t.Errorf("down since %v while the process works, and said to be: %t", at, down.Load())
			}
		}
	})
}

// TestRunsDoNotWaitForASlowRestart: runs that come right after a death wait for the next process, and later ones do
// not, which would keep the scheduler's lane from other models for most of the time.
func TestRunsDoNotWaitForASlowRestart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &Worker{pool: &Pool{}, changed: make(chan struct{}), history: history{down: time.Now()}}
		s := &Session{worker: w}
		for _, want := range []time.Duration{quickRestart, 0, 0} {
			began := time.Now()
			err := s.Run(t.Context(), nil)
			if _, is := errors.AsType[*engine.ReopeningError](err); !is {
				t.Errorf("got %v", err)
			}
			if waited := time.Since(began); waited != want {
				t.Errorf("a run waited %v, want %v", waited, want)
			}
		}
	})
}
