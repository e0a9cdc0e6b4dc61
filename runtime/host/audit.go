package host

import (
	"cmp"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weftserve/weft/runtime/catalog"
	"github.com/weftserve/weft/runtime/modelrepo"
	"github.com/weftserve/weft/runtime/tensor"
)

// No proof by examples knows every input. So rows of live batches are run once more by themselves, while the device is idle, and what
// they give is compared with what their callers were given.

const (
	// auditFirst is device time for audits beyond the share, so that a version is looked at more closely at first: until it is used up,
	// haste times as much is earned as later.
	auditFirst = 100 * time.Millisecond
	haste      = 10
	// auditSaved is the most device time for audits that can be saved up.
	auditSaved = 100 * time.Millisecond
	// auditBytes bounds what a row kept for an audit may take, and auditTotal what those of all versions may.
	auditBytes, auditTotal = 8 << 20, 64 << 20
)

// AuditResult is what became of a request whose rows shared an execution with others or with padding, or were split over several.
type AuditResult string

// The results.
const (
	AuditEqual    AuditResult = "equal"    // a row of it gives alone what its caller was given
	AuditRounding AuditResult = "rounding" // nearly, and the same as in a batch of copies of itself: its mates have no part in it
	// AuditDifferent: the batch gave the row another answer than it gives alone.
	AuditDifferent        AuditResult = "different"
	AuditNondeterministic AuditResult = "nondeterministic" // it gives something else each time that it is run alone
	AuditFailed           AuditResult = "failed"           // it could not be run alone
	AuditBusy             AuditResult = "skipped_busy"     // the device was not idle for long enough in time
	AuditBudget           AuditResult = "skipped_budget"   // not chosen: the share does not suffice for all
	AuditSize             AuditResult = "skipped_size"     // chosen, but too large to be kept
)

// AuditEvent tells what became of some requests. All requests of which there was something to audit are told of, sooner or later.
type AuditEvent struct {
	Model   string
	Version int64
	Result  AuditResult
	Count   int
}

// audit is what is known of a version's batches.
type audit struct {
	compared, different atomic.Uint64
	held                atomic.Pointer[string] // a remark for the metadata

	mu      sync.Mutex
	rng     *rand.Rand    // guarded by mu, as all that follows
	credit  time.Duration // device time that may be spent; below zero: that has to be earned before the next audit
	first   time.Duration // what is left of auditFirst
	passed  int           // requests since kept was taken, which it is a choice of
	pass    int           // how many have to be before it is taken
	kept    *auditRow
	running bool
	over    bool        // there is nothing more to find
	typical [][]float64 // by output; see scale
	known   []int       // by output: how many rows typical is made of
}

// auditRow is a row of a request, as it was asked and answered.
type auditRow struct {
	replica *replica
	inputs  []tensor.Tensor
	outputs []tensor.Tensor // the wanted ones
	wanted  []int
	// size is that of its execution, with padding; 0 where there were several.
	size  int
	mates int // requests in it, with its own
	bytes int64
}

// watch is how a plan's batches are audited.
type watch struct {
	share   float64 // of the device time of what was audited
	trusted bool    // the manifest's word counts for more than an audit
}

func watchOf(b *modelrepo.Batching) watch {
	return watch{share: b.Audit, trusted: b.Mode == modelrepo.BatchOn}
}

// joined reports whether the rows of an answered call were run in other company than alone.
func (p *plan) joined(call *catalog.Call) bool {
	o := &call.Outcome
	return p.batched && call.Rows > 0 && (o.BatchRequests > 1 || o.PaddedRows > 0 || o.Executions > 1 || p.pads(call.Inputs))
}

// pads reports whether the plan pads an input to its bucket.
func (p *plan) pads(inputs []tensor.Tensor) bool {
	for i := range inputs {
		if padding, is := paddingOf(&p.signature.Inputs[i], inputs[i].Shape); is && padding.Size != inputs[i].Shape[padding.Dim] {
			return true
		}
	}
	return false
}

// observe takes in an answered call: its device time earns some for audits, and it may be chosen for the next. Each request since the
// latest audit has the same chance, whatever else is known of it.
func (h *Host) observe(r *replica, call *catalog.Call) {
	p := r.plan.Load()
	if p.watch.share == 0 || !p.joined(call) {
		return
	}
	tooLarge, start := r.audit.choose(h, p, r, call)
	if tooLarge {
		h.tellAudit(r.version, AuditSize, 1)
	}
	if start {
		h.inBackground(func() { h.runAudits(r.version) })
	}
}

// choose decides whether a row of an answered call is kept for the next audit. It reports whether one that was chosen is too large, and
// whether it is for the caller to run the audits.
func (a *audit) choose(h *Host, p *plan, r *replica, call *catalog.Call) (tooLarge, start bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.over {
		return false, false
	}
	earned := time.Duration(p.watch.share * float64(cmp.Or(call.Outcome.DeviceTime, call.Outcome.Compute)))
	first := min((haste-1)*earned, a.first)
	a.first -= first
	a.credit = min(auditSaved, a.credit+earned+first)
	if a.passed++; a.rng.IntN(a.passed) == 0 {
		if row := h.keep(p, r, call, a.rng.IntN(call.Rows)); row == nil {
			a.passed--
			tooLarge = true
		} else {
			a.dropLocked(h)
			a.kept = row
		}
	}
	start = !a.running && a.due()
	a.running = a.running || start
	return tooLarge, start
}

// due reports whether there is a row to audit, and device time for it. The caller holds mu.
func (a *audit) due() bool { return a.kept != nil && a.credit >= 0 && a.passed > a.pass && !a.over }

// dropLocked gives up the row that is kept, if there is one.
func (a *audit) dropLocked(h *Host) {
	if a.kept != nil {
		h.auditing.Add(-a.kept.bytes)
	}
	a.kept = nil
}

// keep copies a row of a request and its answer; nil where there is no room, or its outputs have no such row.
func (h *Host) keep(p *plan, r *replica, call *catalog.Call, row int) *auditRow {
	k := &auditRow{replica: r, wanted: call.Wanted}
	if o := &call.Outcome; o.Executions == 1 {
		k.size, k.mates = o.BatchRows+o.PaddedRows, o.BatchRequests
	}
	j := job{wanted: call.Wanted}
	total := int64(0)
	for i := range call.Inputs {
		total += rowBytes(&call.Inputs[i], p.signature.Inputs[i].BatchDim, call.Rows)
	}
	for i := range call.Results {
		dim := p.signature.Outputs[j.output(i)].BatchDim
		if shape := call.Results[i].Shape; dim != tensor.NoBatch && (dim >= len(shape) || shape[dim] != int64(call.Rows)) {
			return nil // it was run by itself in the end
		}
		total += rowBytes(&call.Results[i], dim, call.Rows)
	}
	if total > auditBytes || h.auditing.Add(total) > auditTotal {
		if total <= auditBytes {
			h.auditing.Add(-total)
		}
		return nil
	}
	k.bytes = total
	for i := range call.Inputs {
		k.inputs = append(k.inputs, rowOf(call.Inputs[i], p.signature.Inputs[i].BatchDim, row))
	}
	for i := range call.Results {
		k.outputs = append(k.outputs, rowOf(call.Results[i], p.signature.Outputs[j.output(i)].BatchDim, row))
	}
	return k
}

func rowBytes(t *tensor.Tensor, dim, rows int) int64 {
	if dim == tensor.NoBatch {
		return int64(len(t.Data))
	}
	return int64(len(t.Data) / rows)
}

// rowOf copies one row along dim, all where there are no rows.
func rowOf(t tensor.Tensor, dim, row int) tensor.Tensor {
	if dim == tensor.NoBatch {
		return t.Clone()
	}
	return tensor.RowRange{Tensor: t, First: row, Rows: 1}.Copy(dim)
}

// take returns the row to audit next, and how many requests were passed over; nil if there is none: then the audit is not running any
// more. After a row some requests pass, up to as many as its batch had, lest it were always the first of a batch that is chosen.
func (a *audit) take() (row *auditRow, passed int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.running = a.due(); !a.running {
		return nil, 0
	}
	row, passed = a.kept, a.passed-1
	a.kept, a.passed, a.pass = nil, 0, a.rng.IntN(max(1, row.mates))
	return row, passed
}

// spend takes device time off the credit.
func (a *audit) spend(took time.Duration) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.credit -= took
}

// endAudit stops all further audits of a version.
func (h *Host) endAudit(v *version) {
	a := &v.audit
	a.mu.Lock()
	defer a.mu.Unlock()
	a.over = true
	a.dropLocked(h)
}

// restart forgets that there was something to find.
func (a *audit) restart() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.over, a.first = false, auditFirst
	a.held.Store(nil)
}

// counts returns how many rows were compared, and how many had another answer than alone.
func (a *audit) counts() (compared, different uint64) { return a.compared.Load(), a.different.Load() }

// seedRows is how many rows an element must have been seen in before what is typical of it among them is taken for its scale, and
// typicalStep is by what factor each of them moves that up or down, so that it ends near the median.
const (
	seedRows    = 8
	typicalStep = 1.25
)

// largestScale is the most elements whose scales are kept.
const largestScale = 1 << 16

// seed takes over what rows of the proof gave.
func (a *audit) seed(outputs [][]tensor.Tensor) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.typical != nil {
		return // it is one more replica
	}
	for _, row := range outputs {
		a.learnLocked(row, nil)
	}
}

// learn takes in what a row gives alone of the wanted outputs.
func (a *audit) learn(row []tensor.Tensor, wanted []int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.learnLocked(row, wanted)
}

func (a *audit) learnLocked(row []tensor.Tensor, wanted []int) {
	j := job{wanted: wanted}
	for i := range row {
		o := j.output(i)
		for o >= len(a.typical) {
			a.typical, a.known = append(a.typical, nil), append(a.known, 0)
		}
		now := scales(row[i : i+1])
		if len(now) > largestScale {
			now = nil
		}
		if len(now) != len(a.typical[o]) {
			a.typical[o], a.known[o] = now, 1
			continue
		}
		a.known[o]++
		for e, v := range now {
			switch t := a.typical[o][e]; {
			case t == 0:
				a.typical[o][e] = v
			case v > t:
				a.typical[o][e] = min(t*typicalStep, v)
			default:
				a.typical[o][e] = max(t/typicalStep, v)
			}
		}
	}
}

// scale returns what differences of an output are relative to, by element: its magnitude, or the typical one in the rows so far where
// that is larger. The largest so far, as in a proof, would let one huge answer hide all later differences. It is nil, for the largest of
// the row itself, while too few rows of that size were seen.
func (a *audit) scale(o int, want tensor.Tensor) []float64 {
	a.mu.Lock()
	defer a.mu.Unlock()
	if o < len(a.typical) && a.known[o] >= seedRows && want.DType.IsFloat() && len(a.typical[o]) == len(want.Data)/want.DType.Size() {
		own := scales([]tensor.Tensor{want})
		for e, t := range a.typical[o] {
			own[e] = max(own[e], t)
		}
		return own
	}
	return nil
}
