package serving

import (
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weftserve/weft/runtime/audit"
	"github.com/weftserve/weft/runtime/catalog"
	"github.com/weftserve/weft/runtime/fleet"
	"github.com/weftserve/weft/runtime/quarantine"
	"github.com/weftserve/weft/sharedsched"
)

// Scheduler is the part of shell.Scheduler that replicas need; the documentation there is the contract.
type Scheduler interface {
	AddFlow(name, device string, weight float64) (sharedsched.FlowID, error)
	RemoveFlow(sharedsched.FlowID)
	AddVersion(name string, flow sharedsched.FlowID, s sharedsched.Settings) (sharedsched.VersionID, error)
	Inherit(v, from sharedsched.VersionID, moved bool)
	Expel(sharedsched.VersionID)
	Configure(sharedsched.VersionID, sharedsched.Settings) error
	RemoveVersion(context.Context, sharedsched.VersionID) error
	Do(context.Context, sharedsched.VersionID, *sharedsched.Task) (sharedsched.Outcome, error)
	Abandoned() <-chan struct{}
}

// Owner decides which versions there are, and is notified of changes to them: from any goroutine, such as a batch
// thread, and with no lock of this package held. No method may wait for an execution.
type Owner interface {
	// Find returns the version that takes requests which were made for another under its number: that one itself, or the
	// one in its place. Nil: none does; comes: it is being loaded. It takes no lock.
	Find(*catalog.Version) (now *Version, comes bool)
	// Step returns a version as it is published; nil: it is not. It takes no lock.
	Step(model string, number int64) *catalog.Version
	// Changed returns a channel that is closed when Find may return something else for versions of the model.
	Changed(model string) <-chan struct{}
	// Judged says that it has changed how a version is served, or why.
	Judged(*Version)
	// Lost says that a device failed. by is the version that ran there, or was being opened there.
	Lost(d *fleet.Device, cause error, by *Version)
	// Crashed says that requests of the version end the engine's process again and again.
	Crashed(v *Version, cause error)
	// Stirred says that replicas may be stalled from now on, or not any more: every version is to be reviewed.
	Stirred()
	// Freed says that a session was closed; last, that it was the only one of its version.
	Freed(last bool)
	// Discard gives up a replica that was made ready and is not needed: it is to be drained and released.
	Discard(*Replica)
	// Go starts something that ends soon after its context, which ends when everything is to be unloaded. False:
	// nothing is started any more.
	Go(func(context.Context)) bool
}

// parallelOpens is how many versions are opened at once, and parallelProofs how many are proven and warmed up: opening
// takes disk and all cores, a proof only waits for its turns on the device, which may take long while others run. One
// that takes longer than openTime or proofTime does not count any more: it may hang, and others are not to wait for it.
const (
	parallelOpens  = 2
	openTime       = 10 * time.Second
	parallelProofs = 8
	proofTime      = 10 * time.Second
)

// Config holds the settings of a Shared. All of it but Read and the functions from Audited on is required.
type Config struct {
	Owner  Owner
	Read   Reader // nil: Open needs no copies
	Open   Opener
	Fleet  *fleet.Fleet
	Memory *fleet.Budget
	// RunTimeout is the longest that a run may take; 0: any time.
	RunTimeout time.Duration
	// MaxAnswer is how many bytes the outputs of one request may take; 0: any number.
	MaxAnswer int
	// Audited is called with the results of audits of batches, from any goroutine. It must not block. May be nil.
	Audited func(audit.Event)
	// Compared is called with each row that an audit ran alone, from any goroutine. It must not block, nor keep tensors.
	// May be nil.
	Compared func(audit.Comparison)
	// Tried is called when a run in quarantine ended: answered, crashed, failed, or undecided where it showed nothing.
	// From any goroutine; it must not block. May be nil.
	Tried func(model string, version int64, end string)
	// Stepped is called when a step of a pipeline has answered a request, with the time that it took in the queue and in
	// all its runs. From any goroutine; it must not block. May be nil.
	Stepped func(model string, version int64, step string, took time.Duration)
	Log     *slog.Logger
}

// Shared holds the parts that all versions of an owner have in common. Safe for concurrent use.
type Shared struct {
	Config

	sched    Scheduler
	flows    flows
	audits   audit.Config
	hurried  atomic.Bool  // a run that hangs is not waited for
	replicas atomic.Int64 // counts replicas
	quick    atomic.Int64 // counts quick proofs that are under way
	opening  slots        // of versions that are opened
	proving  slots        // of versions that are proven and warmed up

	quarantine quarantine.Requests
}

// NewShared returns the parts that versions have in common. Attach comes next.
func NewShared(cfg Config) *Shared {
	return &Shared{
		Config: cfg,
		audits: audit.Config{
			Memory: &audit.Memory{}, Go: cfg.Owner.Go, Audited: cfg.Audited, Compared: cfg.Compared, Log: cfg.Log,
		},
		opening: slots{make(chan struct{}, parallelOpens), openTime},
		proving: slots{make(chan struct{}, parallelProofs), proofTime},
	}
}

// Attach names the scheduler that feeds the versions, before the first of them is opened.
func (s *Shared) Attach(sched Scheduler) {
	s.sched = sched
	s.flows.sched = sched
}

// await waits for done, outside of the scheduler. The error is the cause of ctx, sharedsched.ErrExpired at the limit,
// or sharedsched.ErrClosed if the scheduler has abandoned its tasks. A zero limit is none.
func (s *Shared) await(ctx context.Context, done <-chan struct{}, limit time.Time) error {
	if !limit.IsZero() {
		var cancel context.CancelFunc
		ctx, cancel = context.WithDeadlineCause(ctx, limit, sharedsched.ErrExpired)
		defer cancel()
	}
	select {
	case <-done:
		return nil
	case <-s.sched.Abandoned():
		return sharedsched.ErrClosed
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// Hurry has runs that hang stopped from now on, whatever their patience, when their versions are reviewed: requests
// that wait behind them must be answered before a server stops.
func (s *Shared) Hurry() { s.hurried.Store(true) }

// AuditMemory returns the memory that the audits of all versions share.
func (s *Shared) AuditMemory() *audit.Memory { return s.audits.Memory }

// Locked reports whether a flow is being used or released at this moment. Tests ask it.
func (s *Shared) Locked() bool {
	free := s.flows.mu.TryLock()
	if free {
		s.flows.mu.Unlock()
	}
	return !free
}

// slots bound how many do something at once. A slot is free again after most, even if its holder is still at work: one
// that hangs must not hold up the others.
type slots struct {
	taken chan struct{} // one element for each that is taken
	most  time.Duration
}

// hold waits for a slot, and returns release, which frees it and may be called late. If ctx ends first there is no slot
// and release does nothing; the caller's next step fails by ctx.
func (s slots) hold(ctx context.Context) (release func()) {
	select {
	case s.taken <- struct{}{}:
	case <-ctx.Done():
		return func() {}
	}
	// The timer and release may both free it.
	free := sync.OnceFunc(func() { <-s.taken })
	timer := time.AfterFunc(s.most, free)
	return func() {
		timer.Stop()
		free()
	}
}
