// Package audit finds out whether batches change answers while a version serves. No proof by examples knows every
// input, so rows of live batches are run once more by themselves, while the device is idle, and their results are
// compared with the answers that their callers got.
//
// Locks: Auditor.mu is held while a row is chosen and copied; Memory.mu, a leaf, may be taken with it held. Neither is
// held across a run, nor while a result is reported.
package audit

import (
	"cmp"
	"context"
	"log/slog"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weftserve/weft/runtime/catalog"
	"github.com/weftserve/weft/runtime/execution"
	"github.com/weftserve/weft/runtime/proof"
	"github.com/weftserve/weft/runtime/tensor"
	"github.com/weftserve/weft/sharedsched"
)

const (
	// closerLook is device time for audits beyond the share, so that a new version is looked at more closely: until it
	// is used up, haste times as much is earned as later.
	closerLook = 100 * time.Millisecond
	haste      = 10
	// mostSaved bounds the device time that is saved up for audits: after a quiet hour they must not take a second at
	// once.
	mostSaved = 100 * time.Millisecond
)

// Config holds the settings that the auditors of all versions share.
type Config struct {
	Memory *Memory
	// Go starts something in a goroutine, unless no audit is to begin any more. Its context ends when none is to go on.
	Go func(func(context.Context)) bool
	// Audited is called with results, from any goroutine. It must not block. May be nil.
	Audited func(Event)
	// Compared is called with each row that was run alone, from any goroutine. It must not block; its time counts as
	// that of the audit. May be nil.
	Compared func(Comparison)
	Log      *slog.Logger
}

// Replica answers requests of a version, and runs rows of them again.
type Replica interface {
	// Plan returns how its requests become executions now.
	Plan() *execution.Plan
	// Run completes the job, executes it among other requests, and returns when it has ended. The error is that of the
	// scheduler, a *catalog.ModelError, or that the version was proven again since the replica was made, so that
	// nothing can be found about the earlier proof any more.
	Run(ctx context.Context, j *execution.Job) (sharedsched.Outcome, error)
	// Another returns a replica that serves by the same proof on a device that works, nil if there is none but this.
	Another() Replica
	// Demote takes the version out of batching; why is a sentence. It calls End.
	Demote(why string)
}

// Source describes the replica that answered a call.
type Source struct {
	Replica Replica
	// Bare is the signature of the version where no lengths are padded.
	Bare *tensor.Signature
	// Tolerance is the relative difference that the manifest allows for, 0 if it states none.
	Tolerance float64
	// Rounds: its proof found rounding beyond that.
	Rounds bool
}

// Auditor audits the batches of one version. At most one row waits for its audit, and at most one is being audited.
// Safe for concurrent use.
type Auditor struct {
	cfg      *Config
	model    string
	version  int64
	remarked func()

	compared, different atomic.Uint64
	remarks             atomic.Pointer[string]
	told                atomic.Bool         // that batches change answers, but are formed anyway
	kept                atomic.Pointer[row] // for the next audit; nil too where it was dropped; written by Memory only

	mu      sync.Mutex
	rng     *rand.Rand    // guarded by mu, as all that follows
	credit  time.Duration // time that may be spent; below zero: to be earned before the next audit
	first   time.Duration // the remainder of closerLook
	passed  int           // requests since kept was taken, which was chosen from them
	pass    int           // how many have to be before it is taken
	running bool
	over    bool       // there is nothing more to find
	seen    proof.Seen // replaced, never changed
}

// New returns the auditor of a version. remarked is called after each new remark, from any goroutine; it must not
// block.
func New(cfg *Config, model string, version int64, remarked func()) *Auditor {
	return &Auditor{
		cfg: cfg, model: model, version: version, remarked: remarked, first: closerLook,
		rng: rand.New(rand.NewPCG(2, uint64(version))),
	}
}

// Counts returns how many answers were compared, and how many of these differed from the results of their rows alone.
func (a *Auditor) Counts() (compared, different uint64) { return a.compared.Load(), a.different.Load() }

// Remarks returns, as sentences, the findings that left the version as it is; "" if there are none.
func (a *Auditor) Remarks() string {
	if all := a.remarks.Load(); all != nil {
		return *all
	}
	return ""
}

// Observe notes a call that was answered by a job. Its device time earns some for audits, and it may be chosen for the
// next one. Each request since the latest audit has the same chance, whatever else is known about it. It is on the way
// of every request, and copies a row only if that is chosen.
func (a *Auditor) Observe(by Source, j *execution.Job, call *catalog.Call) {
	p := by.Replica.Plan()
	if p.Watch.Share == 0 || !p.Joined(call) {
		return
	}
	tooLarge, lost, start := a.choose(p, by, j, call)
	a.tell(Budget, lost)
	if tooLarge {
		a.tell(Size, 1)
	}
	if start {
		a.cfg.Go(a.run)
	}
}

// choose decides whether a row of an answered call is kept for the next audit, in the place of the one that waits. It
// reports whether the chosen row is too large, how many requests count as passed over because their chosen row was
// dropped, and whether the caller must start the audits.
func (a *Auditor) choose(p *execution.Plan, by Source, j *execution.Job,
	call *catalog.Call,
) (tooLarge bool, lost int, start bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.over {
		return false, 0, false
	}
	if a.kept.Load() == nil {
		lost, a.pass, a.passed = a.passed, a.pass-a.passed, 0
	}
	earned := time.Duration(p.Watch.Share * float64(cmp.Or(call.Outcome.DeviceTime, call.Outcome.Compute)))
	first := min((haste-1)*earned, a.first)
	a.first -= first
	a.credit = min(mostSaved, a.credit+earned+first)
	// Of n requests the latest is taken with the probability 1/n: then each of them was taken with that.
	if a.passed++; a.rng.IntN(a.passed) == 0 {
		began := time.Now()
		k := a.cfg.Memory.keep(p, by, j, call, a.rng.IntN(call.Rows))
		if a.workLocked(time.Since(began)); k == nil {
			a.passed--
			tooLarge = true
		} else {
			a.keep(k)
		}
	}
	start = !a.running && a.due()
	a.running = a.running || start
	return tooLarge, lost, start
}

// keep makes a row wait for the next audit in the place of another, whose memory it releases; nil: none waits. The
// caller holds mu, or is Drop.
func (a *Auditor) keep(next *row) {
	if before := a.cfg.Memory.swap(a, next); before != nil {
		a.cfg.Memory.Release(before.bytes)
	}
}

// Drop drops the row that waits for an audit, such as when audits are turned off.
func (a *Auditor) Drop() { a.keep(nil) }

// due reports whether a row waits, device time is left for it, and enough requests have passed since the latest audit.
// The caller holds mu.
func (a *Auditor) due() bool {
	return a.kept.Load() != nil && a.credit >= 0 && a.passed > a.pass && !a.over
}

// take returns the row to audit next, which the caller then owns, and how many requests were passed over for it. nil:
// there is none, and the auditor is not running any more. After a row some requests pass, up to as many as its batch
// had, so that not always the first of a batch is chosen.
func (a *Auditor) take() (k *row, passed int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.due() {
		k = a.cfg.Memory.swap(a, nil)
	}
	if a.running = k != nil; !a.running {
		return nil, 0
	}
	passed = a.passed - 1
	a.passed, a.pass = 0, a.rng.IntN(max(1, k.mates))
	return k, passed
}

// spend takes device time off the credit, which may go below zero: the debt is earned before the next audit.
func (a *Auditor) spend(took time.Duration) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.credit -= took
}

// work takes the time off the credit in which a row was copied or compared: where rows are large and the model is
// small, that is more than the device time. It alone makes no more debt than mostSaved, because on a busy machine this
// time passes without any work.
func (a *Auditor) work(took time.Duration) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.workLocked(took)
}

// workLocked is work for a caller that holds mu.
func (a *Auditor) workLocked(took time.Duration) {
	a.credit = max(a.credit-took, min(a.credit, -mostSaved))
}

// End stops all further audits of the version. The caller calls tell without any lock: it reports the requests that
// were never audited.
func (a *Auditor) End() (tell func()) {
	a.mu.Lock()
	defer a.mu.Unlock()
	left := a.passed
	a.passed, a.over = 0, true
	a.Drop()
	return func() { a.tell(Budget, left) }
}

// Restart forgets all findings, and audits the version as if it were new. It is called when the version was proven
// again.
func (a *Auditor) Restart() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.over, a.first, a.credit, a.seen = false, closerLook, 0, proof.Seen{}
	a.Drop() // the rows that were kept under the earlier proof
	a.remarks.Store(nil)
	a.told.Store(false)
}

// known returns the observations of the version's outputs so far.
func (a *Auditor) known() proof.Seen {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.seen
}

// learn adds the result of a row alone to the observations, and returns them all.
func (a *Auditor) learn(k *row, alone []tensor.Tensor) proof.Seen {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.seen = a.seen.Learn(&k.Audited, alone)
	return a.seen
}

// tell reports results; no lock may be held.
func (a *Auditor) tell(result Result, n int) {
	if a.cfg.Audited != nil && n > 0 {
		a.cfg.Audited(Event{Model: a.model, Version: a.version, Result: result, Count: n})
	}
}

// show hands a row and its result alone to Config.Compared.
func (a *Auditor) show(k *row, alone []tensor.Tensor) {
	if a.cfg.Compared == nil {
		return
	}
	c := Comparison{Model: a.model, Version: a.version, InBatch: k.outputs, Alone: alone}
	for i := range alone {
		c.Outputs = append(c.Outputs, k.Output(i))
	}
	a.cfg.Compared(c)
}

// remark adds a remark about a version that stays as it is. Only the goroutine of run calls it.
func (a *Auditor) remark(text string) {
	if before := a.Remarks(); before != "" {
		text = before + "; " + text
	}
	a.remarks.Store(&text)
	a.remarked()
}
