package worker

import (
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
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
