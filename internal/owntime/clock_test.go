package owntime

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

// standing returns a clock of a process that nothing is known about, and a function that lets time pass: with looks, or
// as if this process stood still.
func standing() (c *Clock, pass func(d time.Duration, looking bool)) {
	const nobody = 1 << 25 // no process has that number, and its clock has one, which 1 << 30 has not
	c = New()
	c.process.pid = nobody
	return c, func(d time.Duration, looking bool) {
		for ; looking && d > 0; d -= every {
			time.Sleep(every)
			c.looks.look()
		}
		time.Sleep(d)
	}
}

// TestStandsStill: what a look is late does not count, from when on it is late; timers wait for the rest.
func TestStandsStill(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, pass := standing()
		begin := time.Now()
		expect := func(when string, had time.Duration, short bool) {
			t.Helper()
			if got := c.Since(begin); got != had {
				t.Errorf("%s: it had %v, want %v", when, got, had)
			}
			if got := c.Short(); got != short {
				t.Errorf("%s: short of time: %v", when, got)
			}
		}
		pass(time.Second, false)
		expect("nobody looks", time.Second, false)
		c.looks.look()
		var fired []time.Duration
		timer := c.AfterFunc(20*time.Second, func() { fired = append(fired, time.Since(begin)) })
		pass(time.Second, true)
		expect("a second", 2*time.Second, false)
		pass(10*time.Second, false)
		expect("it stood still for 10 s", 2*time.Second+every, true)
		pass(5*time.Second, true)
		expect("5 s later", 7*time.Second, true)
		pass(6*time.Second, true)
		expect("11 s later", 13*time.Second, false)
		pass(10*time.Second, true)
		synctest.Wait()
		if want := 31 * time.Second; len(fired) != 1 || fired[0] != want || timer.Stop() {
			t.Errorf("a timer of 20 s that began at 1 s fired at %v, want %v", fired, want)
		}
		timer.Reset(time.Second)
		pass(500*time.Millisecond, true)
		if !timer.Stop() || timer.Stop() || c.judging.Load() != 0 {
			t.Errorf("a timer that runs is not stopped once, and %d run", c.judging.Load())
		}
	})
}

// TestRest: while nobody asks, looks are rare, and late by as much as ever. A question or a timer ends that.
func TestRest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, _ := standing()
		expect := func(when string, after, want time.Duration) {
			t.Helper()
			for end := time.Now().Add(after); time.Now().Before(end); time.Sleep(c.looks.pace()) {
				c.looks.look()
			}
			if got := c.looks.pace(); got != want {
				t.Errorf("%s: a look each %v, want %v", when, got, want)
			}
		}
		expect("at first", time.Second, every)
		expect("after some rest", 10*time.Second, rest)
		if lost := c.Lost(time.Now().Add(-5 * time.Second)); lost != 0 {
			t.Errorf("rest counts as a stop of %v", lost)
		}
		expect("after a question", time.Second, every)
		expect("after another rest", 10*time.Second, rest)
		timer := c.AfterFunc(time.Hour, func() {})
		expect("while a timer runs", 10*time.Second, every)
		timer.Stop()
		expect("after the timer", 10*time.Second, rest)
		begin := time.Now()
		time.Sleep(3 * time.Second)
		if had := c.Since(begin); had > time.Second {
			t.Errorf("of 3 s without a look it had %v", had)
		}
	})
}

// TestTheSystemsClock: nil is one.
func TestTheSystemsClock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var c *Clock
		begin := time.Now()
		ctx, cancel := c.All().Follow(1).WithTimeoutCause(t.Context(), time.Second, context.DeadlineExceeded)
		defer cancel()
		<-ctx.Done()
		had, cause := c.Since(begin), context.Cause(ctx)
		if had != time.Second || c.Short() || !errors.Is(cause, context.DeadlineExceeded) {
			t.Errorf("after %v a timeout of 1 s ended by %v", had, cause)
		}
		c.Forget()
	})
}
