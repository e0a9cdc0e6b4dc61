package execution

import (
	"sync/atomic"
	"time"
)

// A run hangs once it has taken hangTime, and hangFactor times as long as any run of its session that went well. A model
// whose runs take seconds has shown that when it was warmed up, so that its ordinary runs do not hang. The first run of
// a session has firstTime: libraries prepare themselves in it.
const (
	hangTime   = time.Second
	hangFactor = 2
	firstTime  = 10 * time.Second
)

// pace is how long the runs of a session take, and how many hang. Safe for concurrent use.
type pace struct {
	longest atomic.Int64 // nanoseconds, of those that went well
	hanging atomic.Int32
}

// Hanging returns how many runs of the session hang, those in quarantine aside.
func (l *Loaded) Hanging() int { return int(l.pace.hanging.Load()) }

// watch tells the owner when a run begins to hang, and when that run ends, which ended says.
func (u *Unit) watch() (ended func(error)) {
	p, begin, after := &u.pace, time.Now(), firstTime
	if longest := time.Duration(p.longest.Load()); longest > 0 {
		after = max(hangTime, hangFactor*longest)
	}
	hangs := time.AfterFunc(after, func() {
		p.hanging.Add(1)
		u.Owner.Hangs(1)
	})
	return func(err error) {
		took := max(1, int64(time.Since(begin)))
		for longest := p.longest.Load(); err == nil && took > longest; longest = p.longest.Load() {
			p.longest.CompareAndSwap(longest, took)
		}
		if !hangs.Stop() {
			p.hanging.Add(-1)
			u.Owner.Hangs(-1)
		}
	}
}
