package audit

import (
	"time"

	"github.com/weftserve/weft/runtime/catalog"
	"github.com/weftserve/weft/runtime/execution"
	"github.com/weftserve/weft/runtime/proof"
	"github.com/weftserve/weft/runtime/tensor"
)

// row is a copy of one row of a request, with the answer that its caller got. It owns its tensors; Memory counts their
// bytes.
type row struct {
	proof.Audited // the form in which it is compared

	replica Replica           // that it is run on again
	bare    *tensor.Signature // of its version, where no lengths are padded
	inputs  []tensor.Tensor
	outputs []tensor.Tensor // the wanted ones
	mates   int             // requests in the execution that answered it, with its own
	bytes   int64
	since   time.Time // when it was kept
	crashed bool      // it ended the engine's process: it is not run any more
}

// keep copies row number at of a request and its answer, and reserves their bytes. It returns nil if there is no room,
// or if the outputs have no such row.
func (m *Memory) keep(p *execution.Plan, by Source, j *execution.Job, call *catalog.Call, at int) *row {
	k := &row{
		Audited: proof.Audited{
			Outputs: by.Bare.Outputs, Wanted: call.Wanted, Size: j.SizeOf(at), Tolerance: by.Tolerance,
			Rounds: by.Rounds,
		},
		replica: by.Replica, bare: by.Bare, mates: call.Outcome.BatchRequests, since: time.Now(),
	}
	for i := range call.Inputs {
		k.bytes += call.Inputs[i].RowBytes(p.Signature.Inputs[i].BatchDim, at)
	}
	for i := range call.Results {
		dim := p.Signature.Outputs[j.Output(i)].BatchDim
		if !call.Results[i].Shape.HasRows(dim, call.Rows) {
			return nil // it was run by itself in the end
		}
		k.bytes += call.Results[i].RowBytes(dim, at)
	}
	if k.bytes > rowLimit || !m.Reserve(k.bytes) {
		return nil
	}
	for i := range call.Inputs {
		k.inputs = append(k.inputs, call.Inputs[i].Row(p.Signature.Inputs[i].BatchDim, at))
	}
	for i := range call.Results {
		k.outputs = append(k.outputs, call.Results[i].Row(p.Signature.Outputs[j.Output(i)].BatchDim, at))
	}
	return k
}

// Result is the outcome of the audit of a request whose rows shared an execution with others or with padding, or were
// split over several.
type Result string

// The results.
const (
	Equal Result = "equal" // a row of it gives alone the answer that its caller got
	// Rounding: nearly, and the same as in a batch of copies of itself: its mates have no part in it.
	Rounding Result = "rounding"
	// Different: the batch gave the row another answer than it gives alone.
	Different        Result = "different"
	Nondeterministic Result = "nondeterministic" // it gives something else each time that it is run alone
	Failed           Result = "failed"           // it could not be run alone
	Busy             Result = "skipped_busy"     // the device was not idle for long enough in time
	Budget           Result = "skipped_budget"   // not chosen: the share does not suffice for all
	Size             Result = "skipped_size"     // chosen, but too large to be kept
)

// Comparison is a row of a live batch as it was answered, and its result alone. Its tensors must not be kept.
type Comparison struct {
	Model          string
	Version        int64
	Outputs        []*tensor.Spec // the outputs that were asked for
	InBatch, Alone []tensor.Tensor
}

// Event reports the outcome of some requests. All requests that had something to audit are reported sooner or later,
// except requests that are answered when the audits of their version have ended: it is out of batching, or all its
// outputs are random.
type Event struct {
	Model   string
	Version int64
	Result  Result
	Count   int
}
