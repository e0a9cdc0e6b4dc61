package loadgen

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"
)

// patience is how long the run waits for answers after the last request is due, at least. Longer deadlines, with those
// of retries, extend it.
const patience = 10 * time.Second

// runner sends the requests of several loads at once.
type runner struct {
	loads            []*load
	warmup, duration time.Duration
	predict          predictor
	newSleeper       func() sleeper

	// begun and over are called when the warm-up has ended and when nothing is due any more, or the run is cut short.
	begun, over func()

	// All loops count here, for the line of progress and the processor time of a request.
	ended, failed atomic.Int64 // requests, those of the warm-up too
}

// run sends everything, and returns how long it counted. It waits for the answers to all requests that were due, within
// the patience. When ctx ends it sends no more, and waits for no answer.
func (r *runner) run(ctx context.Context) time.Duration {
	at := clock{start: time.Now()}
	at.begin = at.start.Add(r.warmup)
	at.end = at.begin.Add(r.duration)
	sending, stop := context.WithCancel(ctx)
	defer stop()
	done := func(failed bool) {
		r.ended.Add(1)
		if failed {
			r.failed.Add(1)
		}
	}

	var loops sync.WaitGroup
	answering := patience
	for _, l := range r.loads {
		// Each attempt has the whole deadline anew.
		answering = max(answering, time.Duration(1+l.Retries)*l.limit())
		// Each loop has its own goroutine and timer, so that one stream does not delay another.
		loops.Go(func() {
			if l.closed() {
				l.callers(sending, at, r.predict, done)
				return
			}
			wait := r.newSleeper()
			defer wait.close()
			l.open(sending, at, wait, r.predict, done)
		})
	}
	var counted time.Duration
	var wait timerSleeper
	if wait.until(ctx, at.begin) {
		r.begun()
		wait.until(ctx, at.end)
		counted = min(time.Since(at.begin), r.duration)
		r.over()
	}
	// Requests without an answer by then are cancelled, and counted as unanswered.
	defer time.AfterFunc(answering, stop).Stop()
	loops.Wait()
	stop()
	// Calls that were given up, and stay open, end with the context that stop has ended.
	for _, l := range r.loads {
		l.givenUp.Wait()
	}
	return counted
}

// progress returns a function that says how far the run is, with the rate since its previous call. One goroutine calls
// it.
func (r *runner) progress() func() string {
	start := time.Now()
	var last time.Duration
	var before int64
	return func() string {
		now, ended := time.Since(start), r.ended.Load()
		rate := float64(ended-before) / (now - last).Seconds()
		last, before = now, ended
		stage := "measuring"
		switch {
		case now < r.warmup:
			stage = "warming up"
		case now > r.warmup+r.duration:
			stage = "waiting for answers"
		}
		return fmt.Sprintf("%.0f of %.0f s, %s: %d ended, %d failed, %.0f/s", now.Seconds(),
			(r.warmup + r.duration).Seconds(), stage, ended, r.failed.Load(), rate)
	}
}
