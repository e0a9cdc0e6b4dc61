package owntime

import (
	"context"
	"sync"
	"time"
)

// Timer calls a function once its clock's process has had some time. It is safe for concurrent use.
type Timer struct {
	clock *Clock
	call  func()
	real  *time.Timer

	// mu orders a firing with Stop and Reset.
	mu    sync.Mutex
	runs  bool // guarded by mu, as is the rest
	began time.Time
	takes time.Duration
}

// AfterFunc calls f, in a goroutine of its own, when the process had so much time from now on.
func (c *Clock) AfterFunc(takes time.Duration, f func()) *Timer {
	t := &Timer{clock: c, call: f, runs: true, began: time.Now(), takes: takes}
	t.judge(1)
	t.mu.Lock()
	defer t.mu.Unlock()
	t.real = time.AfterFunc(takes, t.fire)
	return t
}

// judge adds to the number of timers that run by the clock. While there are none, the process need not be looked at.
func (t *Timer) judge(by int32) {
	if t.clock != nil {
		t.clock.judging.Add(by)
	}
}

// fire calls the function, or waits for the rest if the process has not had its time yet.
func (t *Timer) fire() {
	if t.clock != nil && t.clock.looks.latest.Load() != nil {
		t.clock.looks.look() // what happened since the latest may decide
	}
	t.mu.Lock()
	if !t.runs {
		t.mu.Unlock()
		return
	}
	// The process lacked some time, which it gets now.
	if left := t.takes - t.clock.Since(t.began); left > 0 {
		t.real.Reset(left)
		t.mu.Unlock()
		return
	}
	t.runs = false
	t.mu.Unlock()
	t.judge(-1)
	t.call()
}

// Stop keeps the function from being called, and reports whether it did: false if it was called before, or stopped.
func (t *Timer) Stop() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.runs {
		return false
	}
	t.runs = false
	t.judge(-1)
	t.real.Stop()
	return true
}

// Reset calls the function, perhaps once more, when the process has had so much time from now on.
func (t *Timer) Reset(takes time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.runs {
		t.judge(1)
	}
	t.runs, t.began, t.takes = true, time.Now(), takes
	t.real.Reset(takes)
}

// WithTimeoutCause is context.WithTimeoutCause in the process's time. The context has no deadline, since nobody knows
// when the process will have had the time.
func (c *Clock) WithTimeoutCause(ctx context.Context, takes time.Duration, cause error) (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	t := c.AfterFunc(takes, func() { cancel(cause) })
	return ctx, func() {
		t.Stop()
		cancel(context.Canceled)
	}
}

// After is time.After in the process's time.
func (c *Clock) After(takes time.Duration) <-chan struct{} {
	over := make(chan struct{})
	c.AfterFunc(takes, func() { close(over) })
	return over
}
