package host

import (
	"slices"
	"time"

	"github.com/weftserve/weft/runtime/catalog"
	"github.com/weftserve/weft/runtime/tensor"
)

// auditBytes bounds what a row kept for an audit may take, and auditTotal what all that are kept, and the copies that are run, may.
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

// keep copies a row of a request and its answer; nil where there is no room, or its outputs have no such row.
func (h *Host) keep(p *plan, j *job, call *catalog.Call, row int) *auditRow {
	k := &auditRow{replica: j.replica, wanted: call.Wanted, size: j.sizeOf(row), mates: call.Outcome.BatchRequests, since: time.Now()}
	for i := range call.Inputs {
		k.bytes += rowBytes(call.Inputs[i], p.signature.Inputs[i].BatchDim, row)
	}
	for i := range call.Results {
		dim := p.signature.Outputs[j.output(i)].BatchDim
		if !holds(call.Results[i].Shape, dim, call.Rows) {
			return nil // it was run by itself in the end
		}
		k.bytes += rowBytes(call.Results[i], dim, row)
	}
	if k.bytes > auditBytes || !h.reserve(k.bytes) {
		return nil
	}
	for i := range call.Inputs {
		k.inputs = append(k.inputs, rowOf(call.Inputs[i], p.signature.Inputs[i].BatchDim, row))
	}
	for i := range call.Results {
		k.outputs = append(k.outputs, rowOf(call.Results[i], p.signature.Outputs[j.output(i)].BatchDim, row))
	}
	return k
}

// reserve takes memory for audits, if there is room, or where rows that wait for audits make some: the oldest first, which are those of
// versions that nobody asks any more.
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

// rowBytes returns the bytes of what rowOf copies.
func rowBytes(t tensor.Tensor, dim, row int) int64 {
	if dim == tensor.NoBatch {
		return int64(len(t.Data))
	}
	return int64(tensor.JoinedSize(dim, []tensor.RowRange{{Tensor: t, First: row, Rows: 1}}))
}

// rowOf copies one row along dim, all where there are no rows.
func rowOf(t tensor.Tensor, dim, row int) tensor.Tensor {
	if dim == tensor.NoBatch {
		return t.Clone()
	}
	return tensor.RowRange{Tensor: t, First: row, Rows: 1}.Copy(dim)
}

// repeated returns n times the row along dim.
func repeated(row tensor.Tensor, dim, n int) tensor.Tensor {
	if dim == tensor.NoBatch || n == 1 {
		return row
	}
	ranges := slices.Repeat([]tensor.RowRange{{Tensor: row, Rows: 1}}, n)
	t := tensor.Tensor{DType: row.DType, Shape: row.Shape.With(dim, int64(n)), Data: make([]byte, tensor.JoinedSize(dim, ranges))}
	tensor.JoinRows(t.Data, dim, ranges)
	return t
}
