package host

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/weftserve/weft/runtime/catalog"
	"github.com/weftserve/weft/runtime/tensor"
	"github.com/weftserve/weft/sharedsched"
)

const (
	// auditPatience is how long an audit waits for the device to be idle.
	auditPatience = 10 * time.Second
	// roughly is by how many times its tolerance a value may be off through rounding alone: kernels of another size add in another order.
	roughly = 10
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
		h.auditing.Add(-row.bytes)
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
	alone, err := h.copies(ctx, row, 1, sharedsched.Sheddable)
	if err != nil {
		if _, is := errors.AsType[*catalog.ModelError](err); is {
			return AuditFailed
		}
		return AuditBusy // or on its way out
	}
	a.compared.Add(1)
	a.learn(alone, row.wanted)
	found := row.compare(a, row.outputs, alone)
	if !found.wrong() {
		return AuditEqual
	}
	// What answers differently each time tells nothing of its mates. These runs are waited for: batches go on meanwhile.
	for range 2 {
		again, err := h.copies(ctx, row, 1, sharedsched.Critical)
		if err != nil {
			return AuditFailed
		}
		if row.compare(a, again, alone).wrong() {
			h.endAudit(v)
			h.remark(v, "its batches are not audited, because rows give something else each time they are run alone")
			return AuditNondeterministic
		}
	}
	if found.far <= roughly*found.tolerated && h.isRounding(ctx, row, found) {
		return AuditRounding
	}
	a.different.Add(1)
	before := a.compared.Load() - 1
	why := fmt.Sprintf("an audit of live batches found that %s, after %d that found nothing", found.text, before)
	if !row.replica.plan.Load().watch.trusted {
		h.endAudit(v)
		h.demote(v, why)
		return AuditDifferent
	}
	if a.held.Load() == nil {
		h.log.Warn("batches change what rows answer, and are formed all the same because batching.mode is on", "model", v.model, "version", v.number, "why", why)
		h.remark(v, why)
	}
	return AuditDifferent
}

// isRounding reports whether the row's answer is what it gets in a batch of copies of itself that is as large as the one it was in.
func (h *Host) isRounding(ctx context.Context, row *auditRow, found difference) bool {
	if row.size < 2 {
		return false
	}
	a := &row.replica.audit
	all, err := h.copies(ctx, row, row.size, sharedsched.Critical)
	if err != nil {
		return false
	}
	for at := range row.size { // kernels may treat places differently
		j := job{wanted: row.wanted}
		one := make([]tensor.Tensor, len(all))
		for i := range all {
			one[i] = all[i]
			if dim := row.replica.bare.Outputs[j.output(i)].BatchDim; dim != tensor.NoBatch {
				if dim >= len(all[i].Shape) || all[i].Shape[dim] != int64(row.size) {
					return false
				}
				one[i] = rowOf(all[i], dim, at)
			}
		}
		if row.compare(a, row.outputs, one).far <= found.far/2 {
			return true
		}
	}
	return false
}

// copies runs so many copies of the row as an execution of their own, unpadded, and returns the wanted outputs: of one row where n is 1.
func (h *Host) copies(ctx context.Context, row *auditRow, n int, priority sharedsched.Priority) ([]tensor.Tensor, error) {
	r := row.replica
	rows := n
	if n == 1 {
		rows = r.plan.Load().padded(1) // no other sizes may be executed
	}
	j := &job{replica: r, rows: rows, wanted: row.wanted, plan: r.unjoined()}
	for i, in := range row.inputs {
		j.inputs = append(j.inputs, repeated(in, r.bare.Inputs[i].BatchDim, rows))
	}
	j.task = sharedsched.Task{Alone: true, Priority: priority, Limit: time.Now().Add(auditPatience)}
	outcome, err := h.submit(ctx, j)
	r.audit.spend(cmp.Or(outcome.DeviceTime, outcome.Compute))
	if err != nil {
		return nil, err
	}
	outputs, err := j.join()
	if err != nil || n > 1 || rows == 1 {
		return outputs, err
	}
	one := make([]tensor.Tensor, len(outputs))
	for i := range outputs {
		dim := r.bare.Outputs[j.output(i)].BatchDim
		if shape := outputs[i].Shape; dim != tensor.NoBatch && (dim >= len(shape) || shape[dim] != int64(rows)) {
			dim = tensor.NoBatch // the comparison tells
		}
		one[i] = rowOf(outputs[i], dim, 0)
	}
	return one, nil
}

// repeated returns n times the row along dim.
func repeated(row tensor.Tensor, dim, n int) tensor.Tensor {
	if dim == tensor.NoBatch || n == 1 {
		return row
	}
	ranges := make([]tensor.RowRange, n)
	for i := range ranges {
		ranges[i] = tensor.RowRange{Tensor: row, Rows: 1}
	}
	t := tensor.Tensor{DType: row.DType, Shape: row.Shape.With(dim, int64(n)), Data: make([]byte, tensor.JoinedSize(dim, ranges))}
	tensor.JoinRows(t.Data, dim, ranges)
	return t
}

// difference is the worst of an answer, in relation to what is tolerated.
type difference struct {
	far, tolerated float64
	text           string // "" if it is tolerated
}

func (d difference) wrong() bool { return d.text != "" }

// compare compares an answer of the row with what it gives alone.
func (row *auditRow) compare(a *audit, got, alone []tensor.Tensor) (worst difference) {
	j := job{wanted: row.wanted}
	among := "in parts of its request"
	if row.size > 0 {
		among = fmt.Sprintf("in a batch of %d rows", row.size)
	}
	for i := range alone {
		o := j.output(i)
		spec := &row.replica.bare.Outputs[o]
		d := difference{tolerated: row.replica.tolerance(spec.DType)}
		var err error
		d.far, err = deviation(got[i], alone[i], a.scale(o, alone[i]))
		switch {
		case err != nil:
			d.far, d.text = math.Inf(1), fmt.Sprintf("output %q of a row %s %v", spec.Name, among, err)
		case math.IsInf(d.far, 1):
			d.text = fmt.Sprintf("output %q of a row has another value %s than alone", spec.Name, among)
		case d.far > d.tolerated:
			d.text = fmt.Sprintf("output %q of a row differs by %.2g of the largest value %s from what it gives alone (tolerated: %.2g)", spec.Name, d.far, among, d.tolerated)
		}
		if i == 0 || d.wrong() && !worst.wrong() || d.wrong() == worst.wrong() && d.far > worst.far {
			worst = d
		}
	}
	return worst
}

// tolerance is how far an answer may be from that of the row alone, as for the proof.
func (r *replica) tolerance(d tensor.DType) float64 { return tolerated(r.verdict.tolerance, d) }
