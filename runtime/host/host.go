// Package host keeps models resident. It is the shell around residency.Machine, which decides which versions are
// loaded, on which devices, and what happens next: the host carries out its effects (open, prove, publish, drain,
// close), reports how they ended, and hands requests to the scheduler.
//
// Locks: Host.deciding is held from the look at a model until the decision about it is kept and published. Host.mu,
// which guards the machine, may be taken under it, and never while Version.tuning or flows.mu of package serving is
// held. Config.OnChange is never called with Host.mu held, and the engine for nothing but its counts.
package host

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weftserve/weft/runtime/audit"
	"github.com/weftserve/weft/runtime/catalog"
	"github.com/weftserve/weft/runtime/decisions"
	"github.com/weftserve/weft/runtime/execution"
	"github.com/weftserve/weft/runtime/fleet"
	"github.com/weftserve/weft/runtime/fleet/placement"
	"github.com/weftserve/weft/runtime/modelrepo"
	"github.com/weftserve/weft/runtime/residency"
	"github.com/weftserve/weft/runtime/serving"
	"github.com/weftserve/weft/sharedsched"
)

// Scheduler is the part of shell.Scheduler that the host needs; the documentation there is the contract.
type Scheduler interface {
	serving.Scheduler
	RenewDevice(name string) error
}

// Opener loads a version into an engine.
type Opener = serving.Opener

// Site is a device that may run a model.
type Site = placement.Site

// Config holds the settings of a Host.
type Config struct {
	// Read reads a version's files before Open needs them. Nil: it needs none, and batching is proven by examples.
	Read serving.Reader
	// Open loads a version. Required.
	Open Opener
	// Sites returns the devices that may run a version; the error, if none can, says what to do. The host chooses among
	// them, and among those of one rank only for a further replica. It must not block. Nil: Open chooses each version's
	// device and gets no name, and no version has replicas or is moved off a device that fails.
	Sites func(modelrepo.Version, *modelrepo.Manifest) ([]Site, error)
	// FreeMemory returns how many bytes of a device's memory are free now, if known. A version goes only to a device
	// where the estimate described at MemoryBudget fits into the memory that the versions being loaded there leave
	// free. It may take its time, and is called for several devices at once. Nil: nothing is known, so that there is no
	// bound.
	FreeMemory func(device string) (bytes int64, known bool)
	// Logger gets records of loads, proofs and failures. Nil: slog.Default.
	Logger *slog.Logger
	// Lanes is how many batches may be in flight on each device, by name; a device that is not named has 1. So many
	// batch buffers are kept per version: too few are allocated again and again, too many only cost memory.
	Lanes map[string]int
	// MemoryBudget is how many bytes all resident versions together may need, by estimate: one and a half times the
	// size of a model's files, 1 MiB for a synthetic one. A version that would exceed it is not loaded. 0: no bound, so
	// that the system may end the server when memory runs out. Too low keeps versions out that would fit; while a
	// version is replaced both count.
	MemoryBudget int64
	// RunTimeout is the longest that one run of an engine may take; a run whose cost is known may take less. 0: any time.
	RunTimeout time.Duration
	// MaxAnswer is how many bytes the outputs of one request may take; 0: any number.
	MaxAnswer int
	// Revive returns once a device that was lost can be used again, in another process; an error: never, or ctx ended.
	// It is called in a goroutine of its own after each loss. Nil: devices do not come back.
	Revive func(ctx context.Context, device string) error
	// LastUse returns when an episode that is running on a version was last heard of; zero: none is. A version that the
	// policy does not select any more is unloaded when none are running, unless versions.transition is resource, or when
	// others that stay for that are used more. LastUse must not block, and is called about once a second. Nil: no episodes
	// ever run.
	LastUse func(model string, version int64) time.Time
	// Scan looks at the repositories as they are now. LoadVersion asks it for the version that it is to load, because
	// the latest listing may be older than that. Nil: nothing is known but the listings.
	Scan func() modelrepo.Listing
	// Looked returns once Follow has heard of all that is in the repositories at the call, or the cause of ctx. Only
	// AwaitVersion needs it.
	Looked func(ctx context.Context) error
	// Keeper keeps the decisions of run time. Nil: they end with the process.
	Keeper Keeper
	// TryOnce keeps versions that could not be loaded from being tried again by themselves: for a caller that only
	// wants to know whether they can be loaded.
	TryOnce bool
	// Audited is called with the results of audits of batches, from any goroutine. It must not block. May be nil.
	Audited func(audit.Event)
	// Compared is called with each row that an audit ran alone, from any goroutine. It must not block, nor keep tensors.
	// May be nil.
	Compared func(audit.Comparison)
	// Tried is serving.Config.Tried. May be nil.
	Tried func(model string, version int64, end string)
	// Stepped is serving.Config.Stepped. May be nil.
	Stepped func(model string, version int64, step string, took time.Duration)
	// OnChange hears of every new snapshot, from one goroutine at a time and in order; when several follow each other
	// quickly it hears of the newest. It must not call a method that changes models. May be nil.
	OnChange func(*catalog.Snapshot)
}

// Host holds the resident models, and is the scheduler's Executor. Safe for concurrent use.
type Host struct {
	cfg   Config
	log   *slog.Logger
	sched Scheduler

	published atomic.Pointer[catalog.Snapshot]
	notifyMu  sync.Mutex   // orders calls of OnChange
	reviews   atomic.Int32 // calls of Review that nobody has done the work of

	// held while something is decided, or learned from a manifest, until that is kept and published
	deciding sync.Mutex
	memory   *fleet.Budget
	fleet    *fleet.Fleet
	serving  *serving.Shared
	counts   counts
	loadings loadings

	mu        sync.Mutex
	residency *residency.Machine                       // guarded by mu
	versions  map[int64]*serving.Version               // guarded by mu: by the number of the resident that they are
	replicas  map[residency.ReplicaID]*serving.Replica // guarded by mu: the replicas that residency knows
	faces     map[string]map[int64]face                // guarded by mu: as published, of each version of each model
	// guarded by mu: by model, where somebody waits; closed when its published state changes
	changed   map[string]chan struct{}
	settling  map[settling]chan struct{} // guarded by mu: the same; closed when nothing is running for it
	telling   int                        // guarded by mu: steps that are not fully reported and logged yet
	listeners map[*listener]struct{}     // guarded by mu
	openings  map[*opening]struct{}      // guarded by mu; the ones under way
	watching  bool                       // guarded by mu: the load of the devices is looked at
	closed    bool                       // guarded by mu: nothing is loaded any more
	loads     sync.WaitGroup             // counts goroutines that may load, or wait for that; Add is guarded by mu
	drains    context.Context            //nolint:containedctx // guarded by mu: bounds draining; that of Close in the end
	// guarded by mu: starts a goroutine that Close waits for; nil: nothing is started any more
	start   func(func())
	closing func(error) // guarded by mu: hears how each version and replica was closed in the end

	stop    context.Context //nolint:containedctx // the host's own life, not a request's: ends when Close begins
	stopNow context.CancelCauseFunc
}

// New returns a host without models. Attach comes next.
func New(cfg Config) *Host {
	if cfg.Keeper == nil {
		cfg.Keeper = (*decisions.Store)(nil)
	}
	h := &Host{
		cfg: cfg, log: cmp.Or(cfg.Logger, slog.Default()),
		versions: map[int64]*serving.Version{}, replicas: map[residency.ReplicaID]*serving.Replica{},
		faces:   map[string]map[int64]face{},
		changed: map[string]chan struct{}{}, settling: map[settling]chan struct{}{}, listeners: map[*listener]struct{}{},
		openings: map[*opening]struct{}{},
		memory:   fleet.NewBudget(cfg.MemoryBudget), fleet: fleet.New(cfg.Lanes, cfg.FreeMemory),
		residency: residency.New(
			residency.Config{AsksBusy: cfg.LastUse != nil, TryOnce: cfg.TryOnce, Seed: rand.Uint64()}),
	}
	h.stop, h.stopNow = context.WithCancelCause(context.Background())
	h.drains, h.start = h.stop, h.loads.Go
	h.serving = serving.NewShared(serving.Config{
		Owner: owner{h}, Read: cfg.Read, Open: cfg.Open, Fleet: h.fleet, Memory: h.memory, RunTimeout: cfg.RunTimeout,
		MaxAnswer: cfg.MaxAnswer,
		Audited:   cfg.Audited, Compared: cfg.Compared, Tried: cfg.Tried, Stepped: cfg.Stepped, Log: h.log,
	})
	h.published.Store(&catalog.Snapshot{})
	return h
}

// Attach names the scheduler that feeds this host, once and before the first Follow. It is no part of Config because a
// scheduler is made with its executor.
func (h *Host) Attach(s Scheduler) {
	h.sched = s
	h.serving.Attach(s)
}

// Execute runs a batch: it is the host's side of shell.Executor. It is called from batch threads and takes no lock of
// the host.
func (h *Host) Execute(b *sharedsched.Batch) sharedsched.Report { return execution.Execute(b) }

// Snapshot returns every known model. It is immutable: changes publish another one.
func (h *Host) Snapshot() *catalog.Snapshot { return h.published.Load() }

// errClosing ends the loads that Close interrupts, and the calls that wait for them. It wraps sharedsched.ErrDraining,
// so that callers see a server that stops.
var errClosing = fmt.Errorf("the models are being unloaded: %w", sharedsched.ErrDraining)

// Close ends running loads and unloads every version, each after its last run. ctx bounds how long it waits for runs. A
// version that did not drain by then keeps its memory, because a run may still be using it. The host takes no more
// loads.
//
// The order is: nothing new is started; loads are interrupted and waited for; then all versions drain side by side.
func (h *Host) Close(ctx context.Context) error {
	h.mu.Lock()
	h.closed, h.start = true, nil
	rest := h.stepLocked(residency.Closing{})
	h.mu.Unlock()
	rest()
	h.stopNow(errClosing)
	h.loads.Wait()
	return h.closeAll(ctx)
}

// Predict runs the call on the replica that is expected to answer first, and fills in Results and Outcome. It returns
// only when nothing reads call.Inputs any more. The error is a *catalog.ModelError, a *tensor.TooLargeError,
// catalog.ErrNotReady, catalog.ErrUntried, catalog.ErrNotOpen or catalog.ErrDeviceLost, wrapped, the error that the
// scheduler ends a task with, or the cause of ctx. ErrNotReady comes before anything was answered: the caller may
// choose another version from a newer snapshot. What is tried before the call ends with an error is a table of package
// serving (attempt.go).
func (h *Host) Predict(ctx context.Context, call *catalog.Call) error {
	if serving.Staged(call.Version) {
		return h.serving.PredictSteps(ctx, call)
	}
	var a serving.Attempt
	a.Begin(h.serving, call)
	return a.Run(ctx)
}

// Find implements serving.Owner. It returns the version behind a published one if that still takes requests. If not, it
// returns the version in its place under its number, provided that it takes the same requests: the call was checked by
// the signature of the first. It reads only the published snapshot, so that a call takes no lock.
func (o owner) Find(v *catalog.Version) (now *serving.Version, comes bool) {
	if own, _ := v.Resident.(*serving.Version); own != nil && own.Ready.Load() {
		return own, false
	}
	m := o.Snapshot().Model(v.Model)
	if m == nil {
		return nil, false
	}
	public := m.Version(v.Number)
	if public == nil || public.State != catalog.Ready || !public.Signature.Same(v.Signature) {
		return nil, public != nil && public.State == catalog.Loading
	}
	now, _ = public.Resident.(*serving.Version)
	return now, false
}
