package loadgen

import (
	"context"
	"time"
)

// sleeper waits for moments. One goroutine uses it.
type sleeper interface {
	// until reports whether the moment came before ctx ended.
	until(ctx context.Context, moment time.Time) bool
	// close gives back what it holds.
	close()
}

// timerSleeper waits by the runtime's timers, which may be a millisecond late.
type timerSleeper struct{}

func (timerSleeper) until(ctx context.Context, moment time.Time) bool {
	left := time.Until(moment)
	if left <= 0 {
		return ctx.Err() == nil
	}
	timer := time.NewTimer(left)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

func (timerSleeper) close() {}
