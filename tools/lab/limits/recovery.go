package main

import (
	"context"
	"math"
	"syscall"
	"time"

	"github.com/weftserve/weft/internal/loadgen"
	"github.com/weftserve/weft/tools/lab/harness"
)

const (
	recoveryFigure = "recovery s"
	beforeFigure   = "before, in time/s"
	duringFigure   = "while slow, in time/s"
	// offeredBefore is the part of its capacity that a server is asked for before, while and after it is slow.
	offeredBefore = 0.8
	recovered     = 0.95
)

// rest is how long a server is left alone after overload: it keeps its queues short for a while, and would refuse most
// of the callers that its capacity is measured with.
const rest = 3 * time.Second

// recovery has a server be slow for a while, under a load that it can do otherwise, and measures how long after that it
// takes to do it again.
func (r *round) recovery() error {
	time.Sleep(rest)
	for _, name := range r.overloaded() {
		capacity, err := r.capacity(recoveryPart, name)
		if err != nil {
			return err
		}
		for _, how := range afterwards {
			r.scene = slowScene + how.name
			if err := r.slowdown(name, how, offeredBefore*capacity); err != nil {
				return err
			}
		}
	}
	return nil
}

func (r *round) slowdown(name string, how manner, rate float64) error {
	e := r.effort
	s := r.servers[name]
	var was [2]time.Time // the slowdown
	l := how.load(rate)
	l.constant, l.span = true, e.before+e.slow+e.after
	m, err := r.open(func() (measured, error) {
		ctx, cancel := context.WithCancel(r.ctx)
		ended := make(chan [2]time.Time, 1)
		go func() {
			begin := time.Now().Add(e.warmup + e.before)
			if wait(ctx, begin) {
				slow(ctx, s.PID(), begin.Add(e.slow))
			}
			ended <- [2]time.Time{begin, time.Now()}
		}()
		m, err := r.bench(s, l)
		cancel()
		was = <-ended
		return m, err
	})
	if err != nil || m.late() {
		return err
	}
	since := func(t time.Time) float64 { return t.Sub(m.began.Add(m.warmup)).Seconds() }
	before, during, took := afterSlowdown(m.Series, since(was[0]), since(was[1]))
	r.note(name, beforeFigure, before)
	r.note(name, duringFigure, during)
	r.note(name, recoveryFigure, took)
	r.note(name, memoryFigure, m.memory)
	return nil
}

// A process that is slowed down runs for a fifth of the time.
const (
	slowRuns  = 5 * time.Millisecond
	slowRests = 4 * slowRuns
)

// slow stops a process and all that it started for four fifths of the time.
func slow(ctx context.Context, pid int, until time.Time) {
	all := harness.Family(pid)
	tell := func(what syscall.Signal) {
		for _, of := range all {
			_ = syscall.Kill(of.PID, what) // it may have ended
		}
	}
	defer tell(syscall.SIGCONT)
	for at := time.Now(); at.Before(until); at = at.Add(slowRests + slowRuns) {
		tell(syscall.SIGSTOP)
		goOn := wait(ctx, at.Add(slowRests))
		tell(syscall.SIGCONT)
		if !goOn || !wait(ctx, at.Add(slowRests+slowRuns)) {
			return
		}
	}
}

// wait reports whether a moment came before ctx ended.
func wait(ctx context.Context, moment time.Time) bool {
	timer := time.NewTimer(time.Until(moment))
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// afterSlowdown returns the answers in time a second before a slowdown and while it lasted, and how many seconds after
// its end they were back for good: from the first of two parts of the run on that both reach what was recovered.
func afterSlowdown(parts []loadgen.Point, begin, end float64) (before, during, took float64) {
	mean := func(from, to float64) float64 {
		sum, n, last := 0.0, 0.0, 0.0
		for _, p := range parts {
			if last >= from && p.AtS <= to {
				sum, n = sum+p.GoodputPS, n+1
			}
			last = p.AtS
		}
		return sum / n
	}
	before, during = mean(0, begin), mean(begin, end)
	for i, p := range parts[:max(len(parts)-1, 0)] {
		if p.AtS > end && min(p.GoodputPS, parts[i+1].GoodputPS) >= recovered*before {
			return before, during, p.AtS - end
		}
	}
	return before, during, math.Inf(1)
}
