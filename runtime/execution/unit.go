package execution

import (
	"context"
	"log/slog"
	"runtime/pprof"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weftserve/weft/internal/owntime"
	"github.com/weftserve/weft/runtime/engine"
	"github.com/weftserve/weft/sharedsched"
)

// Unit executes jobs. It is a version of the scheduler by itself. All fields are set before it is first added to the
// scheduler. Safe for concurrent use.
type Unit struct {
	Model   string
	Version int64
	*Loaded
	Owner Owner
	Log   *slog.Logger
	// MaxAnswer is how many bytes the outputs of one request may take; 0: any number.
	MaxAnswer int

	plan     atomic.Pointer[Plan]
	labelled sync.Once
	labels   context.Context //nolint:containedctx // it holds nothing but the labels of profiles
}

// context returns the context of the unit's executions. By its labels profiles show the time of each model and version.
func (u *Unit) context() context.Context {
	u.labelled.Do(func() {
		u.labels = pprof.WithLabels(context.Background(), pprof.Labels("part", "batch", "model", u.Model,
			"version", strconv.FormatInt(u.Version, 10)))
	})
	return u.labels
}

// Owner receives the findings about a unit.
type Owner interface {
	// Lost reports whether the unit's device failed, so that nothing is to be run there any more. It takes no lock.
	Lost() bool
	// Found is called with the finding of an execution, on the goroutine that executes it and before its jobs end. It
	// must not wait for an execution.
	Found(Finding)
	// Patience returns how long a run of so many rows may take while others wait for it, which is more than it is
	// expected to, and how long one may for which nobody waits; 0: any time.
	Patience(rows int) (usual, most time.Duration)
	// Hangs is called with 1 when a run begins to hang, and with -1 when such a run has ended. The second call may come
	// first. It must not wait for an execution.
	Hangs(by int)
}

// Finding is a fact about its unit that an execution brought to light.
type Finding struct {
	// Rowless says that an output did not have the rows of the batch, so that it is unknown which row belongs to which
	// request; nil: it had.
	Rowless error
	// Lost is the error that said that the device failed; nil: it works.
	Lost error
}

// Plan returns how jobs become executions now.
func (u *Unit) Plan() *Plan { return u.plan.Load() }

// Follow makes executions that begin from now on follow another plan.
func (u *Unit) Follow(p *Plan) { u.plan.Store(p) }

// Loaded is a session and the memory of its executions. Two units share one while one replaces the other.
type Loaded struct {
	Meter  *engine.Meter // of the session
	Counts Counts

	session    engine.Session
	clock      func() *owntime.Clock // nil: the system's
	buffers    pool
	pace       pace
	quarantine *quarantine // nil: the engine has none
	closed     sync.Once
}

// Load takes over a session that was just opened. Close closes it.
func Load(o engine.Opened) *Loaded {
	s := o.Session.Signature()
	l := &Loaded{Meter: engine.NewMeter(o.Session), session: o.Session, clock: o.Clock}
	l.buffers.init(s, o.Memory)
	if o.Quarantine != nil {
		l.quarantine = &quarantine{session: o.Quarantine}
		l.quarantine.buffers.init(s, o.Memory)
	}
	return l
}

// Clock returns the clock by which runs that begin now are judged.
func (l *Loaded) Clock() *owntime.Clock {
	if l.clock == nil {
		return nil
	}
	return l.clock()
}

// Keep has the memory of so many executions kept for later ones: as many as may be in flight. Call it before the first
// execution.
func (l *Loaded) Keep(executions int) { l.buffers.most = executions }

// Trim frees the memory of executions that have ended. Warm-up runs the largest batches that there may be, and batches
// of requests are mostly smaller.
func (l *Loaded) Trim() { l.buffers.trim() }

// Close frees the memory and closes the session, in this order: the driver unlocks memory that it had page-locked. No
// execution may be in flight or follow. Only the first call does anything.
func (l *Loaded) Close() (err error) {
	l.closed.Do(func() {
		if l.quarantine != nil {
			l.quarantine.buffers.close()
		}
		l.buffers.close() // the driver unlocks them, where it had locked them
		err = l.Meter.Close()
	})
	return err
}

// Execute runs a batch whose payloads are jobs of one unit, as shell.Executor asks for. On a lost device it runs
// nothing, and the jobs may run elsewhere.
func Execute(b *sharedsched.Batch) sharedsched.Report {
	u := b.Spans[0].Payload.(*Job).Unit
	if u.Owner.Lost() {
		for i := range b.Spans {
			b.Spans[i].Err = sharedsched.ErrRemoved // it was not run here, so that it may be run elsewhere
		}
		return sharedsched.Report{Unusable: true, Failure: sharedsched.LostDevice}
	}
	return u.execute(b)
}
