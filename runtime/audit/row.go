package audit

import (
	"time"

	"github.com/weftserve/weft/runtime/catalog"
	"github.com/weftserve/weft/runtime/execution"
	"github.com/weftserve/weft/runtime/proof"
	"github.com/weftserve/weft/runtime/tensor"
)

// row is a row of a request, as it was asked and answered.
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

// keep copies a row of a request and its answer; nil where there is no room, or its outputs have no such row.
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
