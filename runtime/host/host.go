// Package host keeps models resident: it loads and proves them, assembles batches, runs them, and hands the rows back.
//
// A version's life: published as loading, opened, its batching decided, added to the scheduler, proven and warmed up through
// the scheduler beside live traffic, published as ready; later published as unloading, drained, closed, gone.
//
// Locks: Host.mu and flows.mu are never held together, and the engine and OnChange are never called with either. flows.mu is
// held across calls of the scheduler, which never calls back with its own lock held.
package host

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"

	"github.com/weftserve/weft/runtime/catalog"
	"github.com/weftserve/weft/sharedsched"
)

// Scheduler is what the host needs of sharedsched.Scheduler, whose documentation is the contract.
type Scheduler interface {
	AddFlow(name, device string, weight float64) (sharedsched.FlowID, error)
	RemoveFlow(sharedsched.FlowID)
	AddVersion(name string, flow sharedsched.FlowID, s sharedsched.Settings) (sharedsched.VersionID, error)
	Inherit(v, from sharedsched.VersionID)
	Configure(sharedsched.VersionID, sharedsched.Settings) error
	RemoveVersion(context.Context, sharedsched.VersionID) error
	Do(context.Context, sharedsched.VersionID, *sharedsched.Task) (sharedsched.Outcome, error)
}

// Config is what a Host is made with.
type Config struct {
	// Open loads a version. Required.
	Open Opener
	// Logger hears of loads, proofs and failures. Nil: slog.Default.
	Logger *slog.Logger
	// Lanes is how many batches may be in flight on each device, by name; a device that is not named has 1. So many batch
	// buffers are kept per version: too few are allocated anew again and again, too many only cost memory.
	Lanes map[string]int
	// OnChange hears of every new snapshot, from one goroutine at a time and in order; when several follow each other quickly
	// it hears of the newest. It must not call Load, Unload or Close. May be nil.
	OnChange func(*catalog.Snapshot)
}

// Host holds the resident models. It is the scheduler's Executor. Safe for concurrent use.
type Host struct {
	cfg   Config
	log   *slog.Logger
	sched Scheduler
	flows flows

	snapshot atomic.Pointer[catalog.Snapshot]
	byID     atomic.Pointer[map[sharedsched.VersionID]*version]
	notifyMu sync.Mutex // orders calls of OnChange

	mu     sync.Mutex
	models map[string]*model // guarded by mu
	closed bool              // guarded by mu: Load does nothing any more
	loads  sync.WaitGroup    // counts running Loads; Add is guarded by mu

	stop    context.Context //nolint:containedctx // the host's own life, not a request's: ends when Close begins
	stopNow context.CancelCauseFunc
}

// New returns a host without models. Attach comes next.
func New(cfg Config) *Host {
	h := &Host{cfg: cfg, log: cmp.Or(cfg.Logger, slog.Default()), models: map[string]*model{}}
	h.stop, h.stopNow = context.WithCancelCause(context.Background())
	h.snapshot.Store(&catalog.Snapshot{})
	h.byID.Store(&map[sharedsched.VersionID]*version{})
	return h
}

// Attach names the scheduler that feeds this host, once and before the first Load. It is no part of Config because a scheduler
// is made with its executor.
func (h *Host) Attach(s Scheduler) {
	h.sched = s
	h.flows.sched = s
}

// Snapshot returns every known model. It changes by replacement only.
func (h *Host) Snapshot() *catalog.Snapshot { return h.snapshot.Load() }

// errClosing ends the loads that Close interrupts.
var errClosing = errors.New("the server is shutting down")

// Close ends running loads and unloads every version, each after its last run. ctx bounds how long it waits for runs; a version
// that did not drain by then keeps its memory, because a run may still be using it. The host takes no more loads.
func (h *Host) Close(ctx context.Context) error {
	h.mu.Lock()
	h.closed = true
	h.mu.Unlock()
	h.stopNow(errClosing)
	h.loads.Wait()
	return h.unloadAll(ctx)
}
