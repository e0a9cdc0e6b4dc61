package execution

import (
	"sync/atomic"
	"time"

	"github.com/weftserve/weft/internal/owntime"
)

// A run hangs once it has taken hangTime, and hangFactor times as long as the latest run of its session that went well,
// of the time that its process had (engine.Opened.Clock).
// A model whose runs take seconds has shown that when it was warmed up, so that its ordinary runs do not hang; one that
// was slow once is soon expected to be quick again. The first run of a session has firstTime: libraries prepare
// themselves in it.
const (
	hangTime   = time.Second
	hangFactor = 2
	firstTime  = 10 * time.Second
)

// pace is how long the runs of a session take, when one last ended well, and how many hang. Safe for concurrent use.
type pace struct {
	longest  atomic.Int64 // nanoseconds, of the runs that went well, in quarantine too
	latest   atomic.Int64 // nanoseconds, of the latest that went well where others run
	answered atomic.Int64 // when that ended, as Unix time in nanoseconds
	hanging  atomic.Int32
}

// hangs returns how long a run may take before it counts as one that hangs, if another took so many nanoseconds.
func hangs(took int64) time.Duration { return max(hangTime, hangFactor*time.Duration(took)) }

// note takes the time of a run that went well into longest.
func (p *pace) note(took time.Duration, err error) {
	for longest := p.longest.Load(); err == nil && int64(took) > longest; longest = p.longest.Load() {
		p.longest.CompareAndSwap(longest, int64(took))
	}
}

// Longest returns how long the longest run of the session took that went well; 0: none did.
func (l *Loaded) Longest() time.Duration { return time.Duration(l.pace.longest.Load()) }

// Respite returns how much longer a run that begins to hang may take, until it has taken twice as long as the longest
// that went well.
func (l *Loaded) Respite() time.Duration {
	return hangs(l.pace.longest.Load()) - hangs(l.pace.latest.Load())
}

// Answered returns when the latest run ended well, those in quarantine aside; if none did, the beginning of Unix time,
// which is long ago.
func (l *Loaded) Answered() time.Time { return time.Unix(0, l.pace.answered.Load()) }

// Hanging returns how many runs of the session hang, those in quarantine aside.
func (l *Loaded) Hanging() int { return int(l.pace.hanging.Load()) }

// watch tells the owner of a unit when a run begins to hang, and when that run ends. It watches one run at a time, that
// of the buffers it belongs to. Its timer is reset for each run, because a new one costs more than everything else
// here.
type watch struct {
	unit  atomic.Pointer[Unit]
	clock *owntime.Clock
	begin time.Time
	timer *owntime.Timer
}

// run watches a run from now on. ended must follow.
func (w *watch) run(u *Unit) {
	w.unit.Store(u)
	w.begin = time.Now()
	after := firstTime
	if latest := u.pace.latest.Load(); latest > 0 {
		after = hangs(latest)
	}
	// A session in a new process has another clock.
	if clock := u.Clock(); w.timer == nil || w.clock != clock {
		w.clock, w.timer = clock, clock.AfterFunc(after, func() { w.count(1) })
	} else {
		w.timer.Reset(after)
	}
}

// ended notes how the run ended. lost is the part of its time in which it waited, and did not run.
func (w *watch) ended(err error, lost time.Duration) {
	p, now := &w.unit.Load().pace, time.Now()
	took := max(1, now.Sub(w.begin)-lost)
	p.note(took, err)
	if err == nil {
		p.latest.Store(int64(took))
		p.answered.Store(now.UnixNano())
	}
	// The timer has counted the run, or is about to.
	if !w.timer.Stop() {
		w.count(-1) // it may come before the other
	}
}

// count adds to the runs that hang. The timer and the end of the run may call it in either order.
func (w *watch) count(by int) {
	u := w.unit.Load() // units that share buffers share the pace, too, and are on the same device
	u.pace.hanging.Add(int32(by))
	u.Owner.Hangs(by)
}
