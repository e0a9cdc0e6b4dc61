package execution

import (
	"sync/atomic"
	"time"
)

// A run hangs once it has taken hangTime, and hangFactor times as long as any run of its session that went well. A
// model whose runs take seconds has shown that when it was warmed up, so that its ordinary runs do not hang. The first
// run of a session has firstTime: libraries prepare themselves in it.
const (
	hangTime   = time.Second
	hangFactor = 2
	firstTime  = 10 * time.Second
)

// pace is how long the runs of a session take, and how many hang. Safe for concurrent use.
type pace struct {
	longest atomic.Int64 // nanoseconds, of those that went well, in quarantine too
	hanging atomic.Int32
}

// note notes how long a run took, and its error.
func (p *pace) note(took time.Duration, err error) {
	for longest := p.longest.Load(); err == nil && int64(took) > longest; longest = p.longest.Load() {
		p.longest.CompareAndSwap(longest, int64(took))
	}
}

// Longest returns how long the longest run of the session took that went well; 0: none did.
func (l *Loaded) Longest() time.Duration { return time.Duration(l.pace.longest.Load()) }

// Hanging returns how many runs of the session hang, those in quarantine aside.
func (l *Loaded) Hanging() int { return int(l.pace.hanging.Load()) }

// watch tells the owner of a unit when a run begins to hang, and when that run ends. It watches one run at a time, and
// is used again, because a timer costs more than the rest.
type watch struct {
	unit  atomic.Pointer[Unit]
	begin time.Time
	timer *time.Timer
}

// run watches a run from now on. ended must follow it.
func (w *watch) run(u *Unit) {
	w.unit.Store(u)
	w.begin = time.Now()
	after := firstTime
	if longest := u.Longest(); longest > 0 {
		after = max(hangTime, hangFactor*longest)
	}
	if w.timer == nil {
		w.timer = time.AfterFunc(after, func() { w.count(1) })
	} else {
		w.timer.Reset(after)
	}
}

// ended says how the run ended.
func (w *watch) ended(err error) {
	w.unit.Load().pace.note(max(1, time.Since(w.begin)), err)
	if !w.timer.Stop() {
		w.count(-1) // it may come before the other
	}
}

func (w *watch) count(by int) {
	u := w.unit.Load() // units that share buffers share the pace, too, and are on the same device
	u.pace.hanging.Add(int32(by))
	u.Owner.Hangs(by)
}
