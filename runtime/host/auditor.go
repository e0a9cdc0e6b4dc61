package host

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/weftserve/weft/runtime/catalog"
	"github.com/weftserve/weft/runtime/execution"
	"github.com/weftserve/weft/runtime/tensor"
	"github.com/weftserve/weft/sharedsched"
)

const (
	// auditPatience is how long an audit waits for the device to be idle.
	auditPatience = 10 * time.Second
	// auditTries is how often a row of which something was found is run that fails by itself, and auditPause the time
	// between two tries.
	auditTries = 3
	auditPause = time.Second
)

// runAudits audits what was chosen until there is nothing more, or no device time left for it.
func (h *Host) runAudits(v *version) {
	for {
		row, passed := v.audit.take()
		if row == nil {
			return
		}
		h.tellAudit(v, AuditBudget, passed)
		h.tellAudit(v, h.auditRow(h.stop, v, row), 1)
		h.give(row)
	}
}

func (h *Host) tellAudit(v *version, result AuditResult, n int) {
	if h.cfg.Audited != nil && n > 0 {
		h.cfg.Audited(AuditEvent{Model: v.model, Version: v.number, Result: result, Count: n})
	}
}

// auditRow compares what a row was given with what it gives alone, and draws the consequences.
func (h *Host) auditRow(ctx context.Context, v *version, row *auditRow) AuditResult {
	a := &v.audit
	like := row.audited()
	if a.known().LeftOut(like, len(row.outputs)) {
		return AuditNondeterministic
	}
	answers, err := h.again(ctx, row, true,
		sharedsched.Task{Priority: sharedsched.Sheddable, Limit: time.Now().Add(auditPatience)})
	if err != nil {
		if _, is := errors.AsType[*catalog.ModelError](err); is {
			return AuditFailed
		}
		return AuditBusy // or on its way out
	}
	alone := answers[0]
	a.compared.Add(1)
	found := a.learn(like, alone).Compare(like, row.outputs, alone)
	if !found.Wrong() {
		return AuditEqual
	}
	// What answers differently each time tells nothing of its mates.
	for range 2 {
		again, gone := h.surely(ctx, row, true)
		if gone {
			return AuditFailed
		}
		if again != nil {
			h.leaveOut(v, row, again[0], alone)
		}
	}
	if found = a.known().Compare(like, row.outputs, alone); !found.Wrong() {
		return AuditNondeterministic
	}
	if found.Rounding {
		copies, gone := h.surely(ctx, row, false)
		if gone {
			return AuditFailed
		}
		// In some place: kernels may treat them differently.
		if slices.ContainsFunc(copies,
			func(one []tensor.Tensor) bool { return !a.known().Compare(like, row.outputs, one).Wrong() }) {
			return AuditRounding
		}
	}
	a.different.Add(1)
	before := a.compared.Load() - 1
	why := fmt.Sprintf("an audit of live batches found that %s, after %d that found nothing", found.Text, before)
	if !row.replica.unit.Plan().Watch.Trusted {
		h.demote(row.replica, why)
		return AuditDifferent
	}
	if a.told.CompareAndSwap(false, true) {
		h.log.Warn("batches change what rows answer, and are formed all the same because batching.mode is on",
			"model", v.model, "version", v.number, "why", why)
		h.remark(v, why)
	}
	return AuditDifferent
}

// leaveOut has the outputs of a row that give something else each time they are run alone compared no more, and says
// so.
func (h *Host) leaveOut(v *version, row *auditRow, again, alone []tensor.Tensor) {
	a, outputs := &v.audit, row.replica.bare.Outputs
	left := a.known().Random(row.audited(), again, alone)
	if len(left) == 0 {
		return
	}
	a.mu.Lock()
	a.seen = a.seen.Without(left)
	all := a.seen.AllLeftOut(len(outputs))
	a.mu.Unlock()
	if all {
		h.tellAudit(v, AuditBudget, a.end(h))
	}
	for _, o := range left {
		h.remark(v, fmt.Sprintf("output %q is not audited, because it is something else each time a row is run alone",
			outputs[o].Name))
	}
}

// surely runs a row again of which something was found. That is not forgotten: it is tried again and again while the
// device is busy, and on another one where that is lost. The result is nil where the row fails for reasons of its own,
// and gone that no device is left that serves by the proof that the row was answered by.
func (h *Host) surely(ctx context.Context, row *auditRow, alone bool) (answers [][]tensor.Tensor, gone bool) {
	for failed := 0; failed < auditTries; {
		answers, err := h.again(ctx, row, alone, sharedsched.Task{})
		refusal, refused := errors.AsType[*sharedsched.Refusal](err)
		switch _, fails := errors.AsType[*catalog.ModelError](err); {
		case err == nil:
			return answers, false
		// so many copies never fit
		case fails, refused && refusal.Reason == sharedsched.RefusedQueueFull && refusal.RetryAfter < 0:
			failed++
		case refused, errors.Is(err, sharedsched.ErrExpired):
		default:
			r := row.replica.pick(1)
			if r == nil || r == row.replica || r.proof != row.replica.proof {
				return nil, true
			}
			row.replica = r
		}
		if pause(ctx, auditPause) != nil {
			return nil, true
		}
	}
	return nil, false
}

// errProvenAnew says that a row was answered by an earlier proof, of which nothing is to be found any more.
var errProvenAnew = errors.New("the version was proven anew")

// again runs the row alone, as it came, or in a batch of copies of itself like the one that answered it, and returns
// what it gives in each place of the wanted outputs. There are as many copies as there is room for: the rest of the
// execution is filled up as any other is.
func (h *Host) again(ctx context.Context, row *auditRow, alone bool, task sharedsched.Task) ([][]tensor.Tensor, error) {
	r, rows := row.replica, 1
	p := *r.unit.Plan()
	if alone {
		p.Signature, p.Trims = r.bare, nil
	} else {
		p.Allowed = []int{row.size}
		room := 2 * row.bytes // what it is given, what it gives, and that one by one
		for rows = row.size; rows > 1 && !h.reserve(room*int64(rows)); rows /= 2 {
		}
		if rows > 1 {
			defer h.auditing.Add(-room * int64(rows))
		}
	}
	j := &execution.Job{Unit: r.unit, Rows: rows, Wanted: row.wanted, Plan: &p, Task: task}
	for i, in := range row.inputs {
		j.Inputs = append(j.Inputs, in.Repeated(p.Signature.Inputs[i].BatchDim, rows))
	}
	j.Task.Alone, j.Task.Unmeasured = true, p.Padded(rows) != rows
	outcome, err := h.submit(ctx, r, j)
	r.audit.spend(cmp.Or(outcome.DeviceTime, outcome.Compute))
	if err != nil {
		return nil, err
	}
	if r.proof != r.proofs.Load() {
		return nil, errProvenAnew
	}
	outputs, err := j.Join()
	if err != nil {
		return nil, err
	}
	answers := make([][]tensor.Tensor, rows)
	for at := range answers {
		answers[at] = slices.Clone(outputs)
		for i := range outputs {
			if dim := p.Signature.Outputs[j.Output(i)].BatchDim; rows > 1 && outputs[i].Shape.HasRows(dim, rows) {
				answers[at][i] = outputs[i].Row(dim, at)
			} // else the comparison tells
		}
	}
	return answers, nil
}
