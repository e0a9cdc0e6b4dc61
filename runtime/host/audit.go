package host

import (
	"cmp"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weftserve/weft/runtime/catalog"
	"github.com/weftserve/weft/runtime/execution"
	"github.com/weftserve/weft/runtime/proof"
	"github.com/weftserve/weft/runtime/tensor"
)

// No proof by examples knows every input. So rows of live batches are run once more by themselves, while the device is
// idle, and what they give is compared with what their callers were given.

const (
	// auditFirst is device time for audits beyond the share, so that a version is looked at more closely at first:
	// until it is used up, haste times as much is earned as later.
	auditFirst = 100 * time.Millisecond
	haste      = 10
	// auditSaved is the most device time for audits that can be saved up.
	auditSaved = 100 * time.Millisecond
)

// AuditResult is what became of a request whose rows shared an execution with others or with padding, or were split
// over several.
type AuditResult string

// The results.
const (
	AuditEqual AuditResult = "equal" // a row of it gives alone what its caller was given
	// nearly, and the same as in a batch of copies of itself: its mates have no part in it
	AuditRounding AuditResult = "rounding"
	// AuditDifferent: the batch gave the row another answer than it gives alone.
	AuditDifferent        AuditResult = "different"
	AuditNondeterministic AuditResult = "nondeterministic" // it gives something else each time that it is run alone
	AuditFailed           AuditResult = "failed"           // it could not be run alone
	AuditBusy             AuditResult = "skipped_busy"     // the device was not idle for long enough in time
	AuditBudget           AuditResult = "skipped_budget"   // not chosen: the share does not suffice for all
	AuditSize             AuditResult = "skipped_size"     // chosen, but too large to be kept
)

// AuditEvent tells what became of some requests. All requests of which there was something to audit are told of, sooner
// or later, but for those that are answered when the audits of their version have ended: it is out of batching, or all
// that it gives is random.
type AuditEvent struct {
	Model   string
	Version int64
	Result  AuditResult
	Count   int
}

// audit is what is known of a version's batches.
type audit struct {
	compared, different atomic.Uint64
	held                atomic.Pointer[string]   // remarks for the metadata
	told                atomic.Bool              // that batches change answers, and are formed all the same
	kept                atomic.Pointer[auditRow] // for the next audit; nil too where it was dropped to make room

	mu      sync.Mutex
	rng     *rand.Rand    // guarded by mu, as all that follows
	credit  time.Duration // device time that may be spent; below zero: that has to be earned before the next audit
	first   time.Duration // what is left of auditFirst
	passed  int           // requests since kept was taken, which it is a choice of
	pass    int           // how many have to be before it is taken
	running bool
	over    bool       // there is nothing more to find
	seen    proof.Seen // replaced, never changed
}

// observe takes in an answered call: its device time earns some for audits, and it may be chosen for the next. Each
// request since the latest audit has the same chance, whatever else is known of it.
func (h *Host) observe(r *replica, j *execution.Job, call *catalog.Call) {
	p := r.unit.Plan()
	if p.Watch.Share == 0 || !p.Joined(call) {
		return
	}
	tooLarge, lost, start := r.audit.choose(r, p, j, call)
	h.tellAudit(r.version, AuditBudget, lost)
	if tooLarge {
		h.tellAudit(r.version, AuditSize, 1)
	}
	if start {
		h.inBackground(func() { h.runAudits(r.version) })
	}
}

// choose decides whether a row of an answered call is kept for the next audit. It reports whether one that was chosen
// is too large, of how many requests the choice was dropped meanwhile, and whether it is for the caller to run the
// audits.
func (a *audit) choose(r *replica, p *execution.Plan, j *execution.Job,
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
	a.credit = min(auditSaved, a.credit+earned+first)
	if a.passed++; a.rng.IntN(a.passed) == 0 {
		if row := r.keep(p, j, call, a.rng.IntN(call.Rows)); row == nil {
			a.passed--
			tooLarge = true
		} else {
			r.host.give(a.kept.Swap(row))
		}
	}
	start = !a.running && a.due()
	a.running = a.running || start
	return tooLarge, lost, start
}

// due reports whether there is a row to audit, and device time for it. The caller holds mu.
func (a *audit) due() bool {
	return a.kept.Load() != nil && a.credit >= 0 && a.passed > a.pass && !a.over
}

// take returns the row to audit next, and how many requests were passed over; nil if there is none: then the audit is
// not running any more. After a row some requests pass, up to as many as its batch had, lest it were always the first
// of a batch that is chosen.
func (a *audit) take() (row *auditRow, passed int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.due() {
		row = a.kept.Swap(nil)
	}
	if a.running = row != nil; !a.running {
		return nil, 0
	}
	passed = a.passed - 1
	a.passed, a.pass = 0, a.rng.IntN(max(1, row.mates))
	return row, passed
}

// spend takes device time off the credit.
func (a *audit) spend(took time.Duration) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.credit -= took
}

// end stops all further audits, and returns of how many requests none is audited.
func (a *audit) end(h *Host) (left int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	left, a.passed, a.over = a.passed, 0, true
	h.give(a.kept.Swap(nil))
	return left
}

// restart forgets what was found, and has the version looked at as if it were new.
func (a *audit) restart(h *Host) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.over, a.first, a.seen = false, auditFirst, proof.Seen{}
	h.give(a.kept.Swap(nil)) // what an earlier proof was for
	a.held.Store(nil)
	a.told.Store(false)
}

// known returns what was seen of the version's outputs.
func (a *audit) known() proof.Seen {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.seen
}

// learn takes in what a row gives alone, and returns what is known then.
func (a *audit) learn(row *proof.Audited, alone []tensor.Tensor) proof.Seen {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.seen = a.seen.Learn(row, alone)
	return a.seen
}
