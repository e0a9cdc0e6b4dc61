package host

import (
	"time"

	"github.com/weftserve/weft/runtime/catalog"
	"github.com/weftserve/weft/runtime/execution"
	"github.com/weftserve/weft/runtime/proof"
	"github.com/weftserve/weft/runtime/tensor"
)

// auditBytes bounds what a row kept for an audit may take, and auditTotal what all that are kept, and the copies that
// are run, may.
const auditBytes, auditTotal = 8 << 20, 64 << 20

// auditRow is a row of a request, as it was asked and answered.
type auditRow struct {
	replica *replica
	inputs  []tensor.Tensor
	outputs []tensor.Tensor // the wanted ones
	wanted  []int
	size    int // of the execution that answered it, with padding
	mates   int // requests in it, with its own
	bytes   int64
	since   time.Time // when it was kept
}

// audited is what the row is compared as.
func (row *auditRow) audited() *proof.Audited {
	r := row.replica
	return &proof.Audited{Outputs: r.bare.Outputs, Wanted: row.wanted, Size: row.size, Tolerance: r.verdict.Tolerance}
}

// keep copies a row of a request and its answer; nil where there is no room, or its outputs have no such row.
func (r *replica) keep(p *execution.Plan, j *execution.Job, call *catalog.Call, row int) *auditRow {
	k := &auditRow{
		replica: r, wanted: call.Wanted, size: j.SizeOf(row), mates: call.Outcome.BatchRequests,
		since: time.Now(),
	}
	for i := range call.Inputs {
		k.bytes += call.Inputs[i].RowBytes(p.Signature.Inputs[i].BatchDim, row)
	}
	for i := range call.Results {
		dim := p.Signature.Outputs[j.Output(i)].BatchDim
		if !call.Results[i].Shape.HasRows(dim, call.Rows) {
			return nil // it was run by itself in the end
		}
		k.bytes += call.Results[i].RowBytes(dim, row)
	}
	if k.bytes > auditBytes || !r.host.reserve(k.bytes) {
		return nil
	}
	for i := range call.Inputs {
		k.inputs = append(k.inputs, call.Inputs[i].Row(p.Signature.Inputs[i].BatchDim, row))
	}
	for i := range call.Results {
		k.outputs = append(k.outputs, call.Results[i].Row(p.Signature.Outputs[j.Output(i)].BatchDim, row))
	}
	return k
}

// reserve takes memory for audits, if there is room, or where rows that wait for audits make some: the oldest first,
// which are those of versions that nobody asks any more.
func (h *Host) reserve(bytes int64) bool {
	for h.auditing.Add(bytes) > auditTotal {
		h.auditing.Add(-bytes)
		if bytes > auditTotal || !h.dropOldest() {
			return false
		}
	}
	return true
}

// dropOldest drops the row that has waited longest for an audit, if one waits.
func (h *Host) dropOldest() bool {
	var of *audit
	var oldest *auditRow
	for _, v := range h.published.Load().byID.All() {
		if row := v.audit.kept.Load(); row != nil && (oldest == nil || row.since.Before(oldest.since)) {
			of, oldest = &v.audit, row
		}
	}
	if oldest != nil && of.kept.CompareAndSwap(oldest, nil) {
		h.give(oldest)
	}
	return oldest != nil
}

// give gives the memory of a row back, which may be nil.
func (h *Host) give(row *auditRow) {
	if row != nil {
		h.auditing.Add(-row.bytes)
	}
}
